"""The package smartnoise-synth: mst and aim with their default options, told the public levels."""

from __future__ import annotations

import pandas as pd
from exchange import asked
from snsynth.aim import AIMSynthesizer
from snsynth.mst import MSTSynthesizer
from snsynth.transform import LabelTransformer, TableTransformer

METHODS = {"mst": MSTSynthesizer, "aim": AIMSynthesizer}


def levels(size: int) -> LabelTransformer:
    """Return a coding of 0 to size - 1 that has not looked at the data."""
    coding = LabelTransformer(nullable=False)
    coding._clear_fit()
    for code in range(size):
        coding._fit(code)
    coding._fit_finish()
    return coding


if __name__ == "__main__":
    task = asked()
    coded = TableTransformer([levels(size) for size in task.sizes.values()])
    synthesizer = METHODS[task.method](epsilon=task.epsilon, delta=task.delta)
    synthesizer.fit(task.table.to_numpy(), transformer=coded)
    made = synthesizer.sample(len(task.table))
    task.write(pd.DataFrame(made, columns=list(task.sizes)))
