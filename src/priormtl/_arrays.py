"""Types of arrays that all packages share.

Shape letters: ``n`` rows, ``d`` features, ``m`` tasks; ``P`` is (d, m).
"""

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

Array = NDArray[np.float64]
Index = NDArray[np.intp]
Matrix = Array | csr_array
