"""What a release would cost, how noisy its tables would be, and how long it takes: by its plan.

`plan_values` has the values by JSON key, and `plan_page` the page that shows them in a terminal and
in a notebook. What an account has left is added in `flows`.
"""
