import json

import pytest

BIG = ("--source-rows", "1e6", "--target-rows", "1_000_000", "--dim", "300", "--cores", "2")


def test_plan_prints_choice_and_alternatives(bitext):
    ended = bitext("plan", *BIG, "--memory", "24GB", "--disk", "1TB")
    assert ended.code == 0
    for word in ("exact", "* clusters", "PQ75x4fs", "4 x 4 shards", "nlist 8,000"):
        assert word in ended.out
    assert ended.last_line.startswith("search: clusters (nlist 8,000, nprobe 10, ")
    assert "note:" not in ended.out


def test_plan_says_what_does_not_fit(bitext):
    ended = bitext("plan", *BIG, "--memory", "100MB", "--disk", "1GB")
    assert ended.out.count("note:") == 2


def test_plan_as_json(bitext):
    ended = bitext("plan", *BIG, "--json", "--device", "cuda")
    facts = json.loads(ended.out)
    assert facts["method"] == "exact"
    assert facts["expected"]["seconds"] > 0
    assert {estimate["method"] for estimate in facts["alternatives"]} == {"exact", "clusters", "faiss"}


def test_plan_for_a_gpu_says_that_there_is_none_here(bitext, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    ended = bitext("plan", *BIG, "--device", "cuda:all")
    assert ended.code == 0
    assert "note: planned for another machine, since here device 'cuda': this machine or this build" in ended.out
    assert json.loads(bitext("plan", *BIG, "--json", "--device", "cuda").out)["advice"][0].startswith("planned for")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    assert "note:" not in bitext("plan", *BIG, "--device", "cuda").out


def test_plan_estimates_the_index_that_is_given(bitext):
    seconds = []
    for parameters in ("nprobe=1", "nprobe=64"):
        facts = json.loads(bitext("plan", *BIG, "--json", "--index", "IVF512,Flat", "--parameters", parameters).out)
        assert facts["method"] == "faiss"
        assert facts["detail"] == f"IVF512,Flat {parameters}"
        seconds.append(facts["expected"]["seconds"])
    assert seconds[1] > 10 * seconds[0]
    ended = bitext("plan", *BIG, "--index", "OPQ75,PQ75")
    assert "* faiss" in ended.out
    assert "note: nothing is known of the time, memory and disk of search.index: OPQ75,PQ75" in ended.out
    assert ended.last_line.endswith("no estimate for this index")
    ended = bitext("plan", *BIG, "--index", "IVF512,Flat")
    (row,) = [line for line in ended.out.split("\n") if "* " in line]
    assert "faiss" in row
    assert "IVF512,Flat nprobe=8" in row


def test_plan_counts_the_rows_of_a_configuration(bitext, task, tiny_model, tmp_path):
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"source: {{path: {task.source}, columns: [id, text]}}\ntarget: {{path: {task.target}, columns: [id, text]}}\n"
        f"model: {tiny_model}\nshard: {{rows: 100}}\nsearch: {{method: clusters, k: 3}}\n",
        encoding="utf-8",
    )
    facts = json.loads(bitext("plan", "--config", path, "--json").out)
    assert facts["task"]["source_rows"] == 221
    assert facts["task"]["target_rows"] == 222
    assert facts["task"]["dim"] == 16
    assert facts["task"]["k"] == 3
    assert facts["why"] == "as configured"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--dim", "300"), "nothing given for source: use --source-rows"),
        ((*BIG, "--source-rows", "many"), "--source-rows: many: give a number of rows"),
        ((*BIG, "--memory", "much"), "'much' is not a size"),
        ((*BIG, "--method", "guess"), "method"),
    ],
)
def test_plan_names_what_is_wrong(bitext, arguments, message):
    ended = bitext("plan", *arguments)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--device", "tpu"), "device 'tpu': not supported"),
        (("--device", "cuda", "--index", "Flat"), "method: faiss searches on the CPU"),
        (("--memory", "24"), "--memory: 24 bytes hold nothing; write it like 24GB"),
        (("--disk", "0"), "--disk: Input should be greater than 0"),
        (("--dim", "0"), "--dim"),
    ],
)
def test_plan_refuses_what_makes_no_sense(bitext, flags, message):
    ended = bitext("plan", *BIG, *flags)
    assert ended.code == 2
    assert message in ended.err


@pytest.mark.parametrize(
    ("flags", "named"),
    [
        (("--method", "exact", "--index", "Flat"), "--index is for --method faiss, and the method is exact"),
        (("--method", "exact", "--clusters", "5"), "--clusters is for --method clusters or auto"),
        (("--method", "clusters", "--backend", "faiss"), "--backend is for --method exact or auto"),
    ],
)
def test_flags_of_another_method_are_refused(bitext, task, tmp_path, flags, named):
    ended = bitext("mine", "--source", task.source, "--target", task.target, "--output", tmp_path / "run", *flags)
    assert ended.code == 2
    assert named in ended.err
    assert not (tmp_path / "run").exists()
