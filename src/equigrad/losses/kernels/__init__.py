"""The passes of `functional` as Triton kernels, for GPUs: loss, closed-form gradient and category sums in one pass.

Nothing here is imported before a kernel is used: Triton is no dependency. `sigmoid` and `softmax` hold the formulas,
`layout` says which entries a program takes, `totals` adds up what the programs leave behind, in a fixed order.
`TRITON_INTERPRET=1`, set before Triton is imported, runs the kernels on CPU tensors.
"""
