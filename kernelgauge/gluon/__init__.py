"""Runs Gluon kernels without a GPU, one partition at a time in a random order, and watches them.

What a GPU does later, a copy by TMA, is an actor of its own here. Vector clocks tell what is
ordered before what by barriers and waits, so an access that nothing orders is found in whichever
order it happens. For other packages:

language.install    let @gluon.jit kernels run here
"""
