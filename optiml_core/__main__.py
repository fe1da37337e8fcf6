"""``python -m optiml_core`` is ``optiml``."""

import sys

from optiml_core.cli.main import main

sys.exit(main())
