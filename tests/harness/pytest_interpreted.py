"""pytest plugin: the tests that patches carry, run on a CPU (`-p harness.pytest_interpreted`).

They are written for a GPU and for Triton's interpreter alike; this brings the interpreter
and the layer's CUDA path.
"""

import harness

harness.install("kernels", engine=False)
