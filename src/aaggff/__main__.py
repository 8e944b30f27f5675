"""`python -m aaggff`."""

from aaggff.cli import main

if __name__ == "__main__":
    main()
