"""A shop: what is ordered and clicked every day, cleaned, joined, and summed up.

    raw      as the sources send it, made up by `generate`
    clean    one truth about each order, customer, product, click and visit
    marts    the numbers that people look at

The functions in `generate`, `cleaning`, `visits` and `totals` take data frames and give
data frames; they know nothing of Servo. `raw`, `clean` and `marts` declare assets around
them.
"""
