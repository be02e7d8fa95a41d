"""``python -m deeplfm``: the same as the ``deeplfm`` script."""

from deeplfm.cli import main

if __name__ == "__main__":
    main()
