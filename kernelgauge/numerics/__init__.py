"""Is a result right? The tolerance rule, and the estimates of rounding errors that it builds on.

Other rooms use compare.Mismatch, compare.Rule, compare.spacing, perturbation.term_size and
perturbation.rounded_runs.
"""
