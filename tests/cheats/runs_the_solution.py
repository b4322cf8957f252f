# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers|the kernel must be your own
import judge.loading

swish = judge.loading.load(judge.loading.SOLUTIONS / "01_pointwise" / "swish.py").swish
