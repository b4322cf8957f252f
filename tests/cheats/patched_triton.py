# puzzle: 01_pointwise/swish
# mode: both
# rejected with: triton.runtime.jit.JITFunction.run was replaced
# sealed: launched no Triton kernel
# sealed on a GPU: the same
from honest import swish as honest
from triton.runtime.jit import JITFunction

JITFunction.run = lambda kernel, *arguments, **options: None
swish = honest
