"""Many mentions in many paragraphs, one that answers: SQuAD-style files, Quasar-T, WebQuestions, your own texts."""
