"""Pictures of what a kernel did: SVGs that stand alone, or many in one page.

For other rooms:
    calls.Candidate, calls.Drawn: a call that may be drawn, and the pictures of one
    roofline.Timed: what a race measured
"""
