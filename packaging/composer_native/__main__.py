"""python -m composer_native: the program composer, for an environment whose bin/ is not on the path."""

from composer_native import main

main()
