# puzzle: 01_pointwise/swish
# mode: both
# rejected with: reads the answers
import judge.loading

exec((judge.loading.SOLUTIONS / "01_pointwise" / "swish.py").read_text())
