"""The package dpmm: mst, aim and privbayes with their default options, without its own binning."""

from __future__ import annotations

from dpmm.pipelines import aim, mst, priv_bayes
from exchange import asked

PIPELINES = {
    "mst": mst.MSTPipeline,
    "aim": aim.AIMPipeline,
    "privbayes": priv_bayes.PrivBayesPipeline,
}

if __name__ == "__main__":
    task = asked()
    pipeline = PIPELINES[task.method](
        epsilon=task.epsilon, delta=task.delta, disable_processing=True
    )
    pipeline.fit(task.table, domain=task.sizes, random_state=task.seed)
    task.write(pipeline.generate(n_records=len(task.table), random_state=task.seed))
