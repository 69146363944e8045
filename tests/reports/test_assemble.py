"""Assembling: five answers, then tables, whatever is known."""

from priormtl.reports.assemble import build_content
from priormtl.reports.learned import Learned
from reported_models import audit_of, learned_of, tuned_model

KEYS = ["quality", "features", "prior", "outliers", "certificate"]


def test_answers_come_in_the_readers_order():
    for learned in (Learned.read(tuned_model()), learned_of([[1.0]])):
        content = build_content(learned, None, None, None)
        assert [finding.key for finding in content.findings] == KEYS
        assert all(finding.sentence.endswith(".") for finding in content.findings)


def test_tables_are_there_where_there_is_something_to_list():
    names = [
        t.name for t in build_content(learned_of([[1.0]]), None, None, None).tables
    ]
    assert names == ["features", "tasks"]
    content = build_content(Learned.read(tuned_model()), None, audit_of(), "Exams")
    names = [table.name for table in content.tables]
    assert names == ["features", "tasks", "relations", "search"]
    assert content.title == "Exams"


def test_the_block_lies_in_the_order_of_the_tables():
    model = tuned_model()
    content = build_content(Learned.read(model), None, None, None)
    features, tasks = content.block_names
    names = model.feature_names_in_.tolist()
    for i, name in enumerate(features):
        assert (
            content.block.values[i].tolist()
            == model.coef_[:, names.index(name)].tolist()
        )
    assert tasks == content.table("tasks")["task"]
    assert content.title == "What 4 tasks share in 6 features"
