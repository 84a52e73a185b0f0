"""``python -m bonafide``."""

from bonafide.cli import main

if __name__ == "__main__":
    main()
