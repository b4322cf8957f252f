# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers
# sealed: ModuleNotFoundError: No module named
# sealed on a GPU: the same
import course.paths

exec((course.paths.SOLUTIONS / "01_pointwise" / "swish.py").read_text())
