# puzzle: 01_pointwise/swish
# sealed: did not return within
while True:
    pass
