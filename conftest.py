"""One thread for each test process: two processes with two threads each would fight for two cores."""

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
