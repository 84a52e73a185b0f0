"""What a person sees: solution sets, runs compared, audits."""
