# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers
import judge.core.paths

exec((judge.core.paths.SOLUTIONS / "01_pointwise" / "swish.py").read_text())
