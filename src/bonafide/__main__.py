"""The command ``bonafide``, also as ``python -m bonafide``."""

import sys


def main() -> None:
    """Run the command line; where a person stops it while Python still imports, end without a traceback too."""
    try:
        from bonafide.cli import main as run

        run()
    except KeyboardInterrupt:
        print("Aborted.", file=sys.stderr)
        sys.exit(130)


if __name__ == "__main__":
    main()
