# puzzle: 01_pointwise/swish
# open: did not return within
# sealed: did not return within
# sealed on a GPU: the same
while True:
    pass
