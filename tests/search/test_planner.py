import dataclasses

import pytest

from mining.config import SearchSettings
from mining.search.planner import (
    Constants,
    Task,
    advice,
    choose,
    cluster_estimate,
    duration,
    exact_estimate,
    faiss_estimates,
    plan_search,
    size,
)


@pytest.mark.parametrize(
    ("source", "target", "device", "method"),
    [
        (200, 200, "cpu", "exact"),
        (40_000, 56_000, "cpu", "exact"),
        (400_000, 400_000, "cpu", "clusters"),
        (1_000_000, 1_000_000, "cpu", "clusters"),
        (1_000_000, 10, "cpu", "exact"),
        (1_000_000, 1_000_000, "cuda", "exact"),
        (1_000_000_000, 1_000_000_000, "cpu", "clusters"),
    ],
)
def test_choice_by_size_and_device(source, target, device, method):
    assert plan_search(Task(source, target, 300, device=device)).method == method


def test_choice_is_the_same_on_every_machine():
    for rows in (10_000, 60_000, 80_000, 100_000, 1_000_000):
        task = Task(rows, rows, 300)
        chosen = {
            plan_search(dataclasses.replace(task, cores=cores, shard_rows=shard)).method
            for cores in (1, 2, 64)
            for shard in (1000, 250_000)
        }
        assert len(chosen) == 1


def test_a_method_that_is_given_is_taken():
    task = Task(1000, 1000, 300)
    assert plan_search(task, "clusters").method == "clusters"
    choice = plan_search(task, "faiss", "IVF16,Flat")
    assert choice.expected.detail == "IVF16,Flat"
    assert choice.line().startswith("search: faiss (IVF16,Flat): 1,000 x 1,000 would take about ")
    assert plan_search(task, "exact").line().startswith("search: exact (1 x 1 shards): expected ")


def test_estimates_grow_as_they_should():
    sizes = [Task(rows, rows, 300, cores=2) for rows in (250_000, 1_000_000, 4_000_000)]
    exact, clusters = [exact_estimate(task) for task in sizes], [cluster_estimate(task) for task in sizes]
    assert 12 < exact[2].seconds / exact[1].seconds < 16.1
    assert 4 < clusters[2].seconds / clusters[1].seconds < 8.1
    assert exact[1].seconds / clusters[1].seconds > 15
    # Memory is that of a shard or a group, whatever the number of rows.
    assert clusters[2].memory < 1.2 * clusters[0].memory
    assert exact[2].memory == exact[0].memory
    assert clusters[2].disk > 3.5 * clusters[1].disk
    faster = dataclasses.replace(Constants(), exact=2 * Constants().exact)
    assert exact_estimate(sizes[1], faster).seconds < exact[1].seconds
    assert cluster_estimate(dataclasses.replace(sizes[1], cores=8)).seconds < clusters[1].seconds
    assert [estimate.detail for estimate in faiss_estimates(Task(250_000, 250_000, 300))] == [
        "IVF1024,Flat nprobe=32",
        "PQ75x4fs",
    ]
    assert len(faiss_estimates(Task(10, 10, 3))) == 1


def test_advice_where_memory_or_disk_do_not_suffice():
    choice = plan_search(Task(10_000_000, 10_000_000, 300))
    assert advice(choice, None, None) == []
    assert advice(choice, 64e9, 1e12) == []
    memory, disk = advice(choice, 1e8, 1e9)
    assert "lower shard.rows" in memory
    assert "search.index: PQ75x4fs" in disk


def test_choice_for_settings_and_its_facts():
    choice = choose("auto", 500_000, 500_000, 300, SearchSettings(clusters=999, nearest=5), cores=3)
    facts = choice.facts()
    assert facts["method"] == "clusters"
    assert facts["task"]["cores"] == 3
    assert facts["expected"]["detail"].startswith("K 999, 5 nearest")
    assert "exact search would take" in facts["why"]


def test_readable_units():
    assert [duration(s) for s in (0.25, 12, 100, 8000, 200_000)] == ["0.2 s", "12 s", "1.7 min", "2.2 h", "2.3 days"]
    assert [size(count) for count in (5e6, 2.5e9, 3e12)] == ["5 MB", "2.5 GB", "3.0 TB"]
