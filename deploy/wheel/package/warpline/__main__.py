"""The command `warpline`."""
import os
import sys

import warpline


def main():
    path = warpline.program()
    try:
        os.execv(path, [path, *sys.argv[1:]])
    except OSError as error:
        sys.exit("warpline: cannot start %s: %s" % (path, error.strerror))


if __name__ == "__main__":
    main()
