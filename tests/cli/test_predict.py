"""priormtl predict: predictions of the library beside their rows, and mistakes."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet
from typer.testing import CliRunner

from drawn_tables import EXAM_FEATURES, exam_frame
from priormtl import MultiTaskClassifier, MultiTaskRegressor, load, save
from priormtl.cli.main import app
from priormtl.cli.predict import prepare, write_batches
from priormtl.engines import Wanted, open_source
from processes import assert_refused

COLUMNS = {"task": "school", "features": EXAM_FEATURES}


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("exams")
    frame = exam_frame(gaps=0.1)
    frame.to_csv(folder / "exams.csv", index=False)
    for missing in ("mean", "drop"):
        model = MultiTaskRegressor(1.0, standardize=True)
        columns = COLUMNS | {"target": "score", "missing": missing}
        save(model.fit_source(folder / "exams.csv", **columns), folder / missing)
    model = MultiTaskClassifier(1.0, standardize=True)
    columns = COLUMNS | {"target": "passed", "missing": "mean"}
    save(model.fit_source(folder / "exams.csv", **columns), folder / "classes")
    return folder


def run(*words):
    return CliRunner().invoke(app, ["predict", *(str(word) for word in words)])


def predict(model, data, out, *words):
    result = run(model, data, "--out", out, *words)
    assert result.exit_code == 0, result.output
    read = pd.read_csv if out.suffix == ".csv" else pd.read_parquet
    return read(out), result


def refuse(result, folder, *words):
    assert_refused(result, *words)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("name", ["a.csv", "a.parquet"])
def test_predictions_stand_beside_task_and_id(place, tmp_path, name):
    words = ("--id", "pupil")
    found, result = predict(
        place / "mean", place / "exams.csv", tmp_path / name, *words
    )
    frame = exam_frame(gaps=0.1)
    assert list(found) == ["pupil", "school", "prediction"]
    assert found["pupil"].tolist() == frame["pupil"].tolist()
    assert found["school"].tolist() == frame["school"].tolist()
    expected = load(place / "mean").predict(frame)
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-12)
    assert "240 rows predicted." in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_intervals_are_two_more_columns(place, tmp_path):
    data, out = place / "exams.csv", tmp_path / "a.csv"
    found, result = predict(place / "mean", data, out, "--interval", "0.8")
    assert list(found) == ["school", "prediction", "lower", "upper"]
    model, frame = load(place / "mean"), exam_frame(gaps=0.1)
    with pytest.warns(UserWarning, match="Intervals assume normal"):
        expected = model.predict_interval(frame, coverage=0.8)
    np.testing.assert_allclose(found[["lower", "upper"]], expected, rtol=1e-12)
    assert "Intervals assume normal" in " ".join(result.stderr.split())
    inside = (frame["score"] >= found["lower"]) & (frame["score"] <= found["upper"])
    assert 0.7 < inside.mean() < 0.95


@pytest.mark.parametrize(
    ("model", "share", "words"),
    [
        ("mean", "90", "--interval must be a number between 0 and 1"),
        ("classes", "0.9", "--interval needs a regressor"),
    ],
)
def test_intervals_need_a_share_and_a_regressor(place, tmp_path, model, share, words):
    words_given = ("--out", tmp_path / "a.csv", "--interval", share)
    refuse(run(place / model, place / "exams.csv", *words_given), tmp_path, words)


def test_several_columns_are_copied(place, tmp_path):
    words = ("--id", "pupil", "--id", "sex")
    found, _ = predict(place / "mean", place / "exams.csv", tmp_path / "a.csv", *words)
    assert list(found) == ["pupil", "sex", "school", "prediction"]
    address = (place / "exams.csv").as_uri()
    again, _ = predict(place / "mean", address, tmp_path / "b.csv", *words)
    pd.testing.assert_frame_equal(found, again)


def test_classes_have_probabilities(place, tmp_path):
    out = tmp_path / "a.parquet"
    found, result = predict(place / "classes", place / "exams.csv", out)
    model, frame = load(place / "classes"), exam_frame(gaps=0.1)
    assert list(found) == ["school", "prediction", "probability"]
    assert found["prediction"].tolist() == model.predict(frame).tolist()
    expected = model.predict_proba(frame)[:, 1]
    np.testing.assert_allclose(found["probability"], expected, rtol=1e-12)
    assert "probability is that of 'yes'." in result.stdout
    told = json.loads(
        run(place / "classes", place / "exams.csv", "--out", out, "--json").stdout
    )
    assert told == {
        "file": str(out),
        "rows": 240,
        "predicted": 240,
        "second_class": "yes",
    }


def test_rows_that_were_dropped_in_learning_are_left_out(place, tmp_path):
    out = tmp_path / "a.csv"
    found, result = predict(place / "drop", place / "exams.csv", out, "--id", "pupil")
    known = exam_frame(gaps=0.1).dropna()
    assert found["pupil"].tolist() == known["pupil"].tolist()
    assert f"{240 - len(known)} dropped for missing values" in result.stdout


def test_pieces_do_not_matter(place, tmp_path):
    source = open_source(place / "exams.csv")
    predictor = prepare(place / "mean", None, None)
    used = predictor.used_columns(source.columns)
    wanted = Wanted(used, {*predictor.kept, *predictor.design.text_sources})
    whole = predictor.predict(next(source.read(wanted)).table)
    parts = [predictor.predict(piece.table) for piece in source.read(wanted, 7)]
    assert max(part.num_rows for part in parts) == 7
    values = [part["prediction"].to_numpy() for part in parts]
    np.testing.assert_allclose(np.concatenate(values), whole["prediction"], 1e-13)


def test_folders_filters_and_encoded_columns(place, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    frame = exam_frame(60)
    for i, rows in enumerate(np.array_split(np.arange(60), 2)):
        part = frame.iloc[rows].assign(**{"sex=f": 1.0, "sex=m": 0.0})
        part.drop(columns=["sex", "score", "passed"]).to_parquet(
            folder / f"{i}.parquet"
        )
    out = tmp_path / "a.csv"
    found, _ = predict(place / "mean", folder, out, "--where", "pupil >= 20")
    expected = load(place / "mean").predict(frame.assign(sex="f").iloc[20:])
    np.testing.assert_allclose(found["prediction"], expected, rtol=1e-12)


def test_models_of_frames_predict_files_too(tmp_path):
    frame = exam_frame(60).assign(school=lambda f: f["school"].str.len())
    X = frame[["hours", "books"]]
    models = {
        "labels": MultiTaskRegressor().fit(X, frame["score"], task=frame["school"]),
        "column": MultiTaskRegressor(task="school").fit(
            X.assign(school=frame["school"]), frame["score"]
        ),
        "one": MultiTaskRegressor().fit(X, frame["score"]),
    }
    frame.to_csv(tmp_path / "a.csv", index=False)
    for name, model in models.items():
        save(model, tmp_path / name)
        words = ("--task", "school") if name == "labels" else ()
        out = tmp_path / f"{name}.csv"
        found, _ = predict(tmp_path / name, tmp_path / "a.csv", out, *words)
        task = {"task": frame["school"]} if name == "labels" else {}
        table = X.assign(school=frame["school"]) if name == "column" else X
        np.testing.assert_allclose(
            found["prediction"], model.predict(table, **task), rtol=1e-12
        )


def test_tasks_may_have_classes_of_their_own(tmp_path):
    frame = exam_frame(60)[["hours", "school"]]
    late = np.where(frame["hours"] > 5, "yes", "no")
    y = np.where(frame["school"] == "north", np.char.upper(late), late)
    model = MultiTaskClassifier(0.1).fit(frame[["hours"]], y, task=frame["school"])
    save(model, tmp_path / "m")
    frame.to_csv(tmp_path / "a.csv", index=False)
    out = tmp_path / "p.csv"
    found, result = predict(tmp_path / "m", tmp_path / "a.csv", out, "--task", "school")
    assert found["prediction"].tolist() == y.tolist()
    assert "probability is" not in result.stdout


@pytest.mark.parametrize(
    ("change", "words", "messages"),
    [
        ({"school": "east"}, (), ("unknown task 'east'; known: 'north', 'south'",)),
        ({"hours": "many"}, (), ("column 'hours' must hold numbers",)),
        ({}, ("--id", "pupl"), ("unknown column 'pupl'", "Did you mean 'pupil'")),
        ({}, ("--task", "scool"), ("unknown column 'scool'", "mean 'school'")),
        ({}, ("--out", "nowhere/a.csv"), ("folder nowhere does not exist",)),
        ({}, ("--out", "a.xls"), ("unknown ending of --out '.xls'",)),
        ({}, ("--where", "age > 3"), ("unknown column 'age'",)),
    ],
)
def test_mistakes_are_one_sentence_and_no_file(
    place, tmp_path_factory, tmp_path, change, words, messages
):
    data = tmp_path_factory.mktemp("data") / "a.csv"
    exam_frame(30).assign(**change).to_csv(data, index=False)
    result = run(place / "mean", data, "--out", tmp_path / "a.csv", *words)
    refuse(result, tmp_path, *messages)


def test_all_unknown_tasks_and_absent_columns_are_named(
    place, tmp_path_factory, tmp_path
):
    data = tmp_path_factory.mktemp("data") / "a.csv"
    frame = exam_frame(30)
    frame["school"] = np.where(frame["school"] == "north", "nord", "sud")
    frame.to_csv(data, index=False)
    out = ("--out", tmp_path / "a.csv")
    words = ("unknown tasks 'nord', 'sud'; known: 'north', 'south', 'west'",)
    refuse(run(place / "mean", data, *out), tmp_path, *words)
    frame.rename(columns={"hours": "hour"}).to_csv(data, index=False)
    words = (".csv: a table lacks the column 'hours'", "Did you mean 'hour'")
    refuse(run(place / "mean", data, *out), tmp_path, *words)


def test_files_that_are_no_models_are_refused(place, tmp_path):
    out = ("--out", tmp_path / "a.csv")
    result = run(place / "exams.csv", place / "exams.csv", *out)
    refuse(result, tmp_path, "exams.csv: not a priormtl file")
    model = MultiTaskRegressor().fit([[1.0], [2.0]], [1.0, 2.0])
    save(model, place / "nameless")
    result = run(place / "nameless", place / "exams.csv", *out)
    refuse(result, tmp_path, "must contain the names of its features")


def test_which_column_holds_the_tasks_must_be_known(place, tmp_path):
    frame = exam_frame(30)
    model = MultiTaskRegressor().fit(
        frame[["hours"]], frame["score"], task=frame["school"]
    )
    save(model, place / "labels")
    result = run(place / "labels", place / "exams.csv", "--out", tmp_path / "a.csv")
    refuse(result, tmp_path, "Give --task COL")


def test_no_rows_give_an_empty_table(place, tmp_path):
    words = ("--where", "pupil < 0")
    found, _ = predict(
        place / "classes", place / "exams.csv", tmp_path / "a.csv", *words
    )
    assert list(found) == ["school", "prediction", "probability"]
    assert len(found) == 0


@pytest.mark.parametrize("replaced", ["exams.csv", "exams.parquet"])
def test_the_table_that_is_read_stays(place, tmp_path, replaced):
    table = tmp_path / replaced
    frame = exam_frame()
    write = frame.to_csv if table.suffix == ".csv" else frame.to_parquet
    write(table, index=False)
    before = table.read_bytes()
    result = run(place / "mean", table, "--out", table)
    assert result.exit_code == 2
    assert "would replace the input" in result.stderr
    assert table.read_bytes() == before


@pytest.mark.parametrize("ending", [".csv", ".parquet"])
def test_kept_columns_never_share_a_name_with_predictions(place, tmp_path, ending):
    table, out = tmp_path / "new.csv", tmp_path / f"out{ending}"
    names = {"pupil": "probability", "school": "prediction"}
    exam_frame().rename(columns=names).to_csv(table, index=False)
    words = ("--task", "prediction", "--id", "probability")
    found, _ = predict(place / "classes", table, out, *words)
    assert list(found) == [
        "probability_given",
        "prediction_given",
        "prediction",
        "probability",
    ]


def test_new_tasks_get_what_is_shared_where_that_is_wanted(place, tmp_path):
    table = tmp_path / "new.csv"
    exam_frame().assign(school="east").to_csv(table, index=False)
    result = run(place / "mean", table, "--out", tmp_path / "a.csv")
    assert result.exit_code == 2
    assert "--unseen shared" in result.stderr
    found, _ = predict(place / "mean", table, tmp_path / "b.csv", "--unseen", "shared")
    model = load(place / "mean").set_params(unseen_tasks="shared")
    expected = model.predict(exam_frame(), task=["east"] * len(found))
    np.testing.assert_allclose(found["prediction"], expected)


@pytest.mark.parametrize("missing", ["mean", "drop"])
def test_rows_without_a_task_are_predicted_as_new_tasks(place, tmp_path, missing):
    table = tmp_path / "new.csv"
    frame = exam_frame()
    frame.loc[:4, "school"] = None
    frame.to_csv(table, index=False)
    words = ("--unseen", "shared", "--id", "pupil")
    found, _ = predict(place / missing, table, tmp_path / "a.csv", *words)
    assert found["pupil"].tolist() == frame["pupil"].tolist()
    model = load(place / missing).set_params(unseen_tasks="shared")
    expected = model.predict(frame, task=frame["school"].fillna("east"))
    np.testing.assert_allclose(found["prediction"], expected)
    if missing == "drop":  # unless new tasks are an error
        found, result = predict(place / missing, table, tmp_path / "a.csv", *words[2:])
        assert found["pupil"].tolist() == frame["pupil"].tolist()[5:]
        assert "5 dropped for missing values" in result.stdout
    else:
        result = run(place / missing, table, "--out", tmp_path / "b.csv")
        assert_refused(result, "task must not hold missing labels: 5 of 240")


PIECES = [
    pa.table({"id": pa.array([1, 2], pa.int32()), "t": pa.array(["u", "v"])}),
    pa.table({"id": [3], "t": pa.array(["ä,\n"]).dictionary_encode()}),
]
WHOLE = {"id": [1, 2, 3], "t": ["u", "v", "ä,\n"]}
MULTILINE = csv.ParseOptions(newlines_in_values=True)
READERS = {
    "a.csv": lambda path: csv.read_csv(path, parse_options=MULTILINE),
    "a.parquet": parquet.read_table,
}


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("order", [1, -1])
def test_pieces_are_one_table(tmp_path, name, order):
    out = tmp_path / name
    with write_batches(out) as write:
        for piece in PIECES[::order]:
            write(piece)
        assert not out.exists()
    found = READERS[name](out).sort_by("id")
    assert found.to_pydict() == WHOLE


def write_half(out):
    with write_batches(out) as write:
        write(PIECES[0])
        raise KeyError


@pytest.mark.parametrize("name", READERS)
def test_a_failure_leaves_what_was_there(tmp_path, name):
    out = tmp_path / name
    out.write_text("old")
    with pytest.raises(KeyError):
        write_half(out)
    assert out.read_text() == "old"
    assert list(tmp_path.iterdir()) == [out]


def test_what_a_format_does_not_know_is_a_sentence(tmp_path):
    out = tmp_path / "a.csv"
    with (
        pytest.raises(ValueError, match=r"a\.csv cannot be written"),
        write_batches(out) as write,
    ):
        write(pa.table({"a": [[1, 2]]}))
    assert list(tmp_path.iterdir()) == []
