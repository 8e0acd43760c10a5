import pytest

from dp_core.errors import BadInput
from dp_core.plan.counting_cluster import WAIT, plain_value, read_cluster
from dp_core.text.documents.strict_yaml import parse


def read(text):
    return read_cluster(parse(f"dask: {text}", source="town.yaml").entries()["dask"])


def test_every_key_is_read():
    found = read(
        "{cluster: dask_jobqueue.SLURMCluster, options: {cores: 4, queue: short}, workers: 8,"
        " wait: 3600}"
    )
    assert (found.cluster, found.workers, found.wait) == ("dask_jobqueue.SLURMCluster", 8, 3600)
    assert found.options == {"cores": 4, "queue": "short"}
    assert found.place("options.queue").line == 1
    assert read("{cluster: a.B}").wait == WAIT
    assert read("{cluster: a.B, adapt: {maximum: 10}}").adapt == (0, 10)
    assert read("{cluster: a.B, adapt: {minimum: 2, maximum: 2}}").adapt == (2, 2)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("4", 4),
        ("-1", -1),
        ("0.5", 0.5),
        ("'4'", "4"),
        ("007", "007"),
        ("01:00:00", "01:00:00"),
        ("4GB", "4GB"),
        ("1.2.3", "1.2.3"),
        ("true", True),
        ("'true'", "true"),
        ("yes", "yes"),
        ("NaN", "NaN"),
        ("null", None),
        ("~", None),
        ("", None),
        ("''", ""),
        ("[1, a, [x]]", [1, "a", ["x"]]),
        ("{a: {b: 2}}", {"a": {"b": 2}}),
    ],
)
def test_a_value_is_what_its_form_says(text, value):
    found = plain_value(parse(f"a: {text}", source="x").entries()["a"])
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{options: {}}", "dask: the key 'cluster' is missing"),
        ("{cluster: SLURMCluster}", "dask.cluster: 'SLURMCluster' is not the full name"),
        ("{cluster: 'a.b()'}", "not the full name"),
        ("{cluster: a.B, option: {}}", "there is no key 'option' here. Did you mean 'options'?"),
        ("{cluster: a.B, options: 4}", "dask.options: must be a mapping"),
        ("{cluster: a.B, workers: 0}", "dask.workers: must be at least 1"),
        ("{cluster: a.B, workers: 2, adapt: {maximum: 3}}", "dask.adapt: `workers` fixes"),
        ("{cluster: a.B, adapt: {minimum: 4, maximum: 3}}", "dask.adapt.minimum: must be at most"),
        ("{cluster: a.B, adapt: {minimum: 4}}", "the key 'maximum' is missing"),
        ("{cluster: a.B, wait: long}", "dask.wait: 'long' is not a whole number"),
        ("SLURM", "dask: must be a mapping"),
    ],
)
def test_a_mistake_is_one_sentence_with_its_place(text, said):
    with pytest.raises(BadInput) as refused:
        read(text)
    assert refused.value.message.startswith("town.yaml, line 1, dask")
    assert said in refused.value.message
