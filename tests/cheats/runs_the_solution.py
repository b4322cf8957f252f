# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers|the kernel must be your own
import judge.core.paths

swish = judge.core.paths.load(judge.core.paths.SOLUTIONS / "01_pointwise" / "swish.py").swish
