# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers
import course.paths

exec((course.paths.SOLUTIONS / "01_pointwise" / "swish.py").read_text())
