import dataclasses

import pytest

from mining.config.search import SearchSettings
from mining.search.faiss_index import new_index
from mining.search.methods import FLOAT_PRODUCTS, METHODS, START_SECONDS, Task, faiss
from mining.search.planner import advice, choose, duration, plan_search, size


def estimate(method, task, **settings):
    return METHODS[method].estimate(task, METHODS[method].settings(**settings))


def planned(task, method="auto", **settings):
    return plan_search(task, SearchSettings(method=method, k=task.k, device=task.device, **settings))


@pytest.mark.parametrize(
    ("source", "target", "device", "method"),
    [
        (200, 200, "cpu", "exact"),
        (40_000, 56_000, "cpu", "exact"),
        (400_000, 400_000, "cpu", "clusters"),
        (1_000_000, 1_000_000, "cpu", "clusters"),
        (1_000_000, 10, "cpu", "exact"),
        (1_000_000, 1_000_000, "cuda", "exact"),
        # Not in ten seconds, but sooner than clusters on the CPU.
        (4_000_000, 4_000_000, "cuda", "exact"),
        (1_000_000_000, 1_000_000_000, "cpu", "clusters"),
    ],
)
def test_choice_by_size_and_device(source, target, device, method):
    assert planned(Task(source, target, 300, device=device)).method == method


def test_choice_is_the_same_on_every_machine():
    for rows in (10_000, 60_000, 80_000, 100_000, 1_000_000):
        task = Task(rows, rows, 300)
        chosen = {
            planned(dataclasses.replace(task, cores=cores, shard_rows=shard)).method
            for cores in (1, 2, 64)
            for shard in (1000, 250_000)
        }
        assert len(chosen) == 1


def test_a_method_that_is_given_is_taken():
    task = Task(1000, 1000, 300)
    assert planned(task, "clusters").method == "clusters"
    choice = planned(task, "faiss", index="IVF16,Flat", parameters="")
    assert choice.expected.detail == "IVF16,Flat"
    assert choice.line().startswith("search: faiss (IVF16,Flat): 1,000 x 1,000 would take about ")
    assert planned(task, "exact").line().startswith("search: exact (1 x 1 shards): expected ")


def test_estimates_grow_as_they_should():
    sizes = [Task(rows, rows, 300, cores=2) for rows in (250_000, 1_000_000, 4_000_000)]
    all_pairs, clusters = ([estimate(name, task) for task in sizes] for name in ("exact", "clusters"))
    assert 12 < all_pairs[2].seconds / all_pairs[1].seconds < 16.1
    assert 4 < clusters[2].seconds / clusters[1].seconds < 8.1
    assert all_pairs[1].seconds / clusters[1].seconds > 15
    # Memory is that of a shard or a group, whatever the number of rows.
    assert clusters[2].memory < 1.2 * clusters[0].memory
    assert all_pairs[2].memory == all_pairs[0].memory
    assert clusters[2].disk > 3.5 * clusters[1].disk
    assert estimate("clusters", dataclasses.replace(sizes[1], cores=8)).seconds < clusters[1].seconds
    # Eight bytes for each cluster of a row of a group.
    memory = [estimate("clusters", sizes[2], nprobe=nprobe).memory for nprobe in (10, 20)]
    assert memory[1] - memory[0] == 8 * 10 * 2 * 1.3 * 150_000


def test_indexes_that_are_worth_a_row_of_the_table():
    method = METHODS["faiss"]
    details = [method.describe(each) for each in method.usual(Task(250_000, 250_000, 300), method.settings())]
    assert details == ["IVF1024,Flat nprobe=32", "PQ75x4fs"]
    assert [len(method.usual(Task(10, 10, dim), method.settings())) for dim in (3, 4)] == [1, 2]


def test_advice_where_memory_or_disk_do_not_suffice():
    choice = planned(Task(10_000_000, 10_000_000, 300))
    assert advice(choice, None, None) == []
    assert advice(choice, 64e9, 1e12) == []
    memory, disk = advice(choice, 1e8, 1e9)
    assert "lower shard.rows" in memory
    assert "search.index: PQ75x4fs" in disk


def test_choice_for_settings_and_its_facts():
    choice = choose(SearchSettings(nlist=999, nprobe=5), 500_000, 500_000, 300, cores=3)
    facts = choice.facts()
    assert facts["method"] == "clusters"
    assert facts["task"]["cores"] == 3
    assert facts["expected"]["detail"].startswith("nlist 999, nprobe 5, ")
    assert facts["settings"] == {"device": "cpu", "nlist": 999, "nprobe": 5}
    assert "exact search would take" in facts["why"]


def test_readable_units():
    assert [duration(s) for s in (0.25, 12, 100, 8000, 200_000)] == ["0.2 s", "12 s", "1.7 min", "2.2 h", "2.3 days"]
    assert [size(count) for count in (5e6, 2.5e9, 3e12)] == ["5 MB", "2.5 GB", "3.0 TB"]
    assert [size(count) for count in (999_499_999, 1e9, 1e12)] == ["999 MB", "1.0 GB", "1.0 TB"]
    limits = [duration(s) for s in (9.9, 10, 89, 90, 7199, 7200, 172_799, 172_800)]
    assert limits == ["9.9 s", "10 s", "89 s", "1.5 min", "120.0 min", "2.0 h", "48.0 h", "2.0 days"]


def of(factory: str, parameters: str = "", rows: int = 1_000_000, **settings):
    return estimate("faiss", Task(rows, rows, 300, cores=2), index=factory, parameters=parameters, **settings)


def test_an_index_is_estimated_from_its_string_and_parameters():
    """Each costs what it should against another: by what is scanned, kept and learnt."""
    probes = [of("IVF1024,Flat", f"nprobe={count}").seconds for count in (1, 8, 64, 1024, 4096)]
    assert probes == sorted(probes)
    assert probes[3] > 100 * probes[0]
    assert probes[3] == probes[4]
    assert of("IVF1024,Flat").seconds == probes[0]
    assert of("Flat").seconds < of("IVF16,Flat", "nprobe=16").seconds
    assert of("Flat").seconds > 40 * of("IVF256,Flat", "nprobe=1").seconds
    assert of("PQ75x4fs").seconds < of("PQ75").seconds
    assert of("HNSW32").seconds < of("HNSW32", "efSearch=256").seconds
    assert of("HNSW16", refine_factor=26).seconds > of("HNSW16", refine_factor=1).seconds
    sizes = [of(name).disk / 2e6 for name in ("Flat", "IVF64,Flat", "SQ8", "SQfp16", "PQ75", "PQ75x4fs", "HNSW32")]
    assert sizes == pytest.approx([1200, 1208, 300, 600, 75, 37.5, 1480], rel=0.01)
    few, many = of("IVF1024,Flat", training_rows=1024), of("IVF1024,Flat", training_rows=200_000)
    assert many.seconds > few.seconds
    assert of("Flat", training_rows=9).seconds == of("Flat").seconds
    assert of("IVF64,SQ8", "nprobe=8").memory < of("IVF64,Flat", "nprobe=8").memory


def test_seconds_of_indexes_reckoned_by_hand():
    rows = 100_000
    seconds = {
        "Flat": 2 * rows * rows * 600 / faiss.FLAT / 2,
        "PQ75": 2 * (65_536 * 256 * 600 * 25 / faiss.SMALL_PRODUCTS)
        + rows * 256 * 600 / faiss.SMALL_PRODUCTS
        + rows * rows * 75 / faiss.LOOKUPS,
        "IVF100,Flat": 2 * (25_600 * 10 * 100 * 600 / FLOAT_PRODUCTS)
        + 2 * rows * 100 * 600 / FLOAT_PRODUCTS
        + rows * rows / 100 * 600 / faiss.SCAN,
        "HNSW16": rows * (40 + 16) * 32 * 600 / faiss.GRAPH,
    }
    for factory, expected in seconds.items():
        assert of(factory, rows=rows).seconds == pytest.approx(START_SECONDS + expected), factory


def test_sides_of_different_size_and_shards():
    one = estimate("faiss", Task(1_000_000, 100_000, 300), index="Flat")
    other = estimate("faiss", Task(100_000, 1_000_000, 300), index="Flat")
    assert one.seconds == pytest.approx(other.seconds)
    assert one.disk == other.disk == 1_100_000 * 1200
    seconds = [
        estimate("faiss", Task(1_000_000, 1_000_000, 300, shard_rows=n), index="Flat").seconds for n in (10**5, 10**6)
    ]
    assert seconds[0] == pytest.approx(seconds[1], rel=0.01)


@pytest.mark.parametrize(
    ("factory", "parameters"),
    [
        ("OPQ75,IVF64,PQ75", ""),
        ("PCA64,Flat", ""),
        ("IVF64_HNSW32,Flat", ""),
        ("HNSW32,PQ8", ""),
        ("IVF64,Flat,RFlat", ""),
        ("NSG32", ""),
        ("LSH", ""),
        ("IVF64,Flat", "quantizer_efSearch=40"),
        ("IVF64,Flat", "nprobe"),
        ("Flat", "nprobe=4"),
    ],
)
def test_what_is_not_known_has_no_estimate(factory, parameters):
    assert of(factory, parameters) is None
    choice = planned(Task(1000, 1000, 300), "faiss", index=factory, parameters=parameters)
    assert choice.expected is None
    assert choice.facts()["expected"] is None
    assert choice.line().startswith(f"search: faiss ({choice.detail}): 1,000 x 1,000 would take about ")
    assert choice.line().endswith("; no estimate for this index")
    assert advice(choice, 1e6, 1e6) == [
        f"nothing is known of the time, memory and disk of search.index: {choice.detail}"
    ]


@pytest.mark.parametrize(
    "factory", ["Flat", "SQ8", "SQfp16", "IVF4,Flat", "IVF4,SQ8", "PQ4x4fs", "IVF4,PQ4x4fs", "PQ4", "HNSW8"]
)
def test_strings_that_are_estimated_are_those_of_faiss(factory):
    assert new_index(factory, 16).d == 16
    assert estimate("faiss", Task(10, 10, 16), index=factory) is not None


def test_the_index_of_a_configuration():
    settings = SearchSettings(method="faiss", index="HNSW16", parameters="efSearch=64")
    assert choose(settings, 10_000, 10_000, 300).line().startswith("search: faiss (HNSW16 efSearch=64): ")


def test_each_gpu_counts_and_what_does_not_use_it_says_so():
    tasks = [Task(10**7, 10**7, 300, device=name) for name in ("cpu", "cuda", "cuda:all", "cuda:0,cuda:1", "cuda:1")]
    assert [task.gpus for task in tasks] == [0, 1, 1, 2, 1]
    seconds = [estimate("exact", task).seconds - START_SECONDS for task in tasks]
    assert seconds[3] == pytest.approx(seconds[1] / 2)
    assert seconds[2] == seconds[1] < seconds[0]
    assert planned(tasks[1], "clusters").line().startswith("search: clusters on the CPU (nlist ")
    assert planned(tasks[0], "clusters").line().startswith("search: clusters (nlist ")
    assert planned(tasks[1], "exact").line().startswith("search: exact (")
