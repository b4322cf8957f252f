# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers|the kernel must be your own
# sealed: ModuleNotFoundError: No module named
# sealed on a GPU: the same
import course.paths

swish = course.paths.load(course.paths.SOLUTIONS / "01_pointwise" / "swish.py").swish
