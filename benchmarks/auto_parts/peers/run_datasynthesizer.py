"""The package DataSynthesizer in correlated mode: PrivBayes, pure epsilon, delta unused.

A number after the method is the largest number of parents; without one the package chooses it.
"""

from __future__ import annotations

import json

from DataSynthesizer.DataDescriber import DataDescriber
from DataSynthesizer.DataGenerator import DataGenerator
from exchange import asked

if __name__ == "__main__":
    task = asked()
    parents = int(task.method.partition("-")[2] or 0)
    levels = task.made.with_suffix(".levels.json")
    levels.write_text(json.dumps({name: list(range(size)) for name, size in task.sizes.items()}))
    describer = DataDescriber()
    describer.describe_dataset_in_correlated_attribute_mode(
        str(task.source),
        k=parents,
        epsilon=task.epsilon,
        attribute_to_datatype=dict.fromkeys(task.sizes, "Integer"),
        attribute_to_is_categorical=dict.fromkeys(task.sizes, True),
        attribute_to_is_candidate_key=dict.fromkeys(task.sizes, False),
        categorical_attribute_domain_file=str(levels),
        seed=task.seed,
    )
    description = task.made.with_suffix(".description.json")
    describer.save_dataset_description_to_file(description)
    generator = DataGenerator()
    generator.generate_dataset_in_correlated_attribute_mode(
        len(task.table), description, seed=task.seed
    )
    task.write(generator.synthetic_dataset)
