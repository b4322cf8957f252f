"""Runs Gluon kernels without a GPU, one partition at a time in a random order, and watches them.

What a GPU does later is an actor of its own here: a copy by TMA, a wgmma, a store. Vector clocks
tell what is ordered before what by barriers and waits, so an access that nothing orders is found
in whichever order it happens. For other packages:

language.install    let @gluon.jit kernels run here
"""
