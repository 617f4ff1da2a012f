import gzip
import re

import pytest
import torch


@pytest.fixture
def command(bitext, task, tiny_model, tmp_path):
    """``bitext mine`` on the task with changed flags; gives how it ended."""

    def mine(
        *more, columns="id,text", model=tiny_model, output=tmp_path / "run", source=task.source, target=task.target
    ):
        flags = [
            "--source",
            source,
            "--target",
            target,
            "--model",
            model,
            "--output",
            output,
            "--threads",
            1,
            "--quiet",
        ]
        return bitext("mine", *flags, *(["--columns", columns] if columns else []), *more)

    return mine


def fails(ended, code, message):
    assert ended.code == code, ended
    assert re.search(message, ended.err), ended.err
    assert ended.err.count("error:") == 1
    assert "Traceback" not in ended.err
    assert ended.out == ""
    return True


def test_missing_file(command, tmp_path):
    assert fails(command(source=tmp_path / "none.tsv"), 2, r"none\.tsv")


def test_empty_file(command, tmp_path):
    (tmp_path / "empty.tsv").touch()
    ended = command(target=tmp_path / "empty.tsv")
    assert fails(ended, 1, r"empty\.tsv: no usable sentence on the target side: the file is empty")


def test_only_blank_rows(command, tmp_path):
    (tmp_path / "blank.tsv").write_text("a\t\nb\t \n", encoding="utf-8")
    assert fails(
        command(target=tmp_path / "blank.tsv"), 1, r"all 2 rows were dropped \(2 blank\); check the path and the text"
    )


def test_wrong_columns(command, tmp_path, task):
    assert fails(command(columns="id,sentence"), 2, "no column 'text' is declared; declared: id, sentence")
    assert fails(command(columns="id,text,domain"), 1, r"source\.tsv, line 1: .*2.*3")
    assert fails(command(columns=None), 2, r"source\.tsv: declare the columns of the TSV")


def test_invalid_utf8_in_strict(command, tmp_path):
    (tmp_path / "latin.tsv").write_bytes(b"a\tok\nb\tGr\xfc\xdfe\n")
    assert fails(command(source=tmp_path / "latin.tsv"), 1, r"latin\.tsv, line 2: invalid UTF-8.*invalid_utf8: replace")


def test_line_of_20_megabytes_is_dropped_with_a_reason(command, tmp_path, task):
    path = tmp_path / "long.tsv"
    path.write_bytes(task.source.read_bytes() + b"s-long\t" + b"x" * 20_000_000 + b"\n")
    ended = command(source=path)
    assert ended.code == 0, ended
    import pyarrow.parquet as pq

    rows = [row for row in pq.read_table(tmp_path / "run" / "dropped.parquet").to_pylist() if row["id"] == "s-long"]
    assert [row["reason"] for row in rows] == ["too_long"]
    assert len(rows[0]["text"]) <= 200


def test_gold_ids_absent_from_the_corpus(command, tmp_path, task):
    gold = tmp_path / "gold.tsv"
    gold.write_text(task.gold.read_text(encoding="utf-8") + "s-9999\tt-0001\n", encoding="utf-8")
    ended = command("--gold", gold)
    assert fails(
        ended, 1, r"1 of 91 source ids \(1\.1%\) are not in the source corpus, for example 's-9999' \(line 91\)"
    )
    swapped = tmp_path / "swapped.tsv"
    swapped.write_text("".join(f"{t}\t{s}\n" for s, t in task.gold_pairs), encoding="utf-8")
    assert fails(command("--gold", swapped), 1, "swapped.tsv")
    assert fails(command("--gold", tmp_path / "none"), 2, "gold: .*none: no such file")


def test_model_of_another_dimension(command, tiny_model, tmp_path):
    import json
    import shutil

    model = tmp_path / "model"
    shutil.copytree(tiny_model, model)
    settings = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**settings, "dim": 24}))
    assert fails(command(model=model), 2, "24")
    assert fails(command(model=tmp_path / "none"), 2, "model: .*none: no such file or folder")


def test_k_larger_than_the_corpus(command):
    assert fails(
        command("--k", 1000), 2, r"k = 1000 nearest neighbours, but the source side has only 22\d usable sentences"
    )


def test_truncated_gzip(command, tmp_path, task):
    path = tmp_path / "cut.tsv.gz"
    whole = gzip.compress(task.source.read_bytes() * 20)
    path.write_bytes(whole[: len(whole) // 2])
    assert fails(command(source=path), 1, r"cut\.tsv\.gz.*(truncated|ends early|incomplete|end)")


def test_unwritable_run_folder(command, tmp_path):
    (tmp_path / "file").touch()
    assert fails(command(output=tmp_path / "file" / "run"), 2, "the run folder cannot be written")


def test_unknown_key_in_the_yaml(bitext, tmp_path):
    path = tmp_path / "my.yaml"
    path.write_text("source: {path: a.txt}\ntarget: {path: b.txt}\nmodel: m\noutput: o\nsearch: {kk: 3}\n")
    assert fails(bitext("mine", "--config", path), 2, r"my\.yaml: unknown key 'search\.kk': did you mean 'k'\?")


def test_nothing_given(bitext):
    assert fails(bitext("mine"), 2, "nothing given for source: use --source, or 'source:' in the file of --config")


def test_id_that_stands_twice(command, tmp_path):
    path = tmp_path / "twice.tsv"
    path.write_text("a\tone\nb\ttwo\na\tthree\n", encoding="utf-8")
    assert fails(
        command(source=path), 1, r"twice\.tsv, line 3 \(id 'a'\): this id stands twice .* first at twice\.tsv, line 1"
    )


def test_id_that_stands_twice_in_different_chunks(command, tmp_path, monkeypatch):
    monkeypatch.setattr("pipelines.transforms.duplicates.BUCKET_ROWS", 2)
    for name, lines in (("1.tsv", "a\tone\nb\ttwo\nc\tthree\n"), ("2.tsv", "d\tfour\nc\tfive\nb\tsix\nc\tx\n")):
        (tmp_path / name).write_text(lines, encoding="utf-8")
    ended = command("--shard-rows", 2, source=tmp_path / "?.tsv")
    # The first step that failed speaks: its bucket holds one of the two.
    assert re.search(
        r"2\.tsv, line (2 \(id 'c'\).*first at 1\.tsv, line 3|3 \(id 'b'\).*first at 1\.tsv, line 2)", ended.err
    ), ended.err


def test_input_in_the_run_folder(command, tmp_path, task):
    folder = tmp_path / "all"
    folder.mkdir()
    (folder / "source.tsv").write_bytes(task.source.read_bytes())
    assert command(source=folder / "*.tsv", output=folder / "run").code == 0
    ended = command(source=folder / "**", output=folder / "run")
    assert fails(ended, 2, "is input and lies in the run folder .*choose another output")


def test_evaluation_of_a_cut_file_warns_and_of_the_folder_sees_all(command, bitext, tmp_path, task):
    run = tmp_path / "run"
    assert command("--gold", task.gold).code == 0
    folder = bitext("evaluate", "bucc", "--pairs", run, "--gold", task.gold, "--threshold", "0.5")
    cut = bitext("evaluate", "bucc", "--pairs", run / "pairs.tsv", "--gold", task.gold, "--threshold", "0.5")
    assert "warning" not in folder.err
    assert re.search(r"pairs\.tsv was cut at the run's threshold .* Give the run folder", cut.err)
    assert folder.last_line != cut.last_line


def test_runners_that_hang_or_download_are_refused(command):
    assert fails(command("--runner", "DirectRunner"), 2, "use FnApiRunner")


def test_unknown_index_and_too_few_rows(command):
    assert fails(command("--index", "IVF100000,Flat"), 2, "needs at least 100000 rows to train on")
    assert fails(command("--index", "Nonsense"), 2, "search.index 'Nonsense' does not fit")


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU, so asking for it is no mistake")
def test_device_that_is_not_there(command):
    assert fails(command("--device", "cuda"), 2, "cuda")
    assert fails(command("--device", "gpu0"), 2, "gpu0")


def test_failed_run_is_marked_incomplete_and_can_be_mended(command, tmp_path, task):
    path = tmp_path / "mend.tsv"
    path.write_bytes(task.source.read_bytes() + b"x\t\xff\n")
    assert command(source=path).code == 1
    assert b'"complete": false' in (tmp_path / "run" / "manifest.json").read_bytes()
    path.write_bytes(task.source.read_bytes())
    ended = command(source=path)
    assert ended.code == 0
    assert re.fullmatch(r"\d+ pairs at no threshold: .*/run/pairs\.tsv", ended.last_line)
