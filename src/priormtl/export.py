"""Fitted models as ONNX graphs, which run without Python and without priormtl.

A prediction is one line, the score ``x · p_i + b_i`` of a row x in task i, and so is
its graph: find the row of the task's label in a table, gather that row of the
coefficients, multiply, and sum. Unseen tasks have rows of their own in the table, the
averages that ``unseen_tasks`` asks for; where it asks for none, their row lies outside
of the table, which is an error of the runtime.
"""

import json
from collections.abc import Hashable, Mapping, Sequence
from importlib.metadata import version
from numbers import Real
from typing import Any

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from priormtl._arrays import Array
from priormtl.checks import check_choice
from priormtl.data import SEPARATOR, UNKNOWN
from priormtl.design import Categories, Levels, Line, Term
from priormtl.design.columns import TEXTS
from priormtl.estimators.classifier import ClassificationTasks
from priormtl.estimators.linear import LinearMultiTask
from priormtl.estimators.unseen import RowTasks, place_rows

try:
    import onnx
    from onnx import TensorProto, helper, numpy_helper
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        "priormtl.export needs onnx: pip install 'priormtl[onnx]'", name="onnx"
    ) from error

__all__ = ["to_onnx"]

ML = "ai.onnx.ml"
Shape = Sequence[str | int]
DTYPES = {"float64": TensorProto.DOUBLE, "float32": TensorProto.FLOAT}


def to_onnx(model: object, *, dtype: str = "float64") -> onnx.ModelProto:
    """Convert a fitted model to ONNX.

    Parameters
    ----------
    model : MultiTaskRegressor, MultiTaskClassifier or one of their CV variants
        Fitted model.
    dtype : {"float64", "float32"}, default="float64"
        Type of features and results. With "float64", results are those of the model up
        to rounding.

    Returns
    -------
    onnx.ModelProto
        Write it with ``onnx.save(result, path)``. Inputs and outputs are listed in the
        notes.

    Raises
    ------
    TypeError
        If the model is no linear model, such as the pipeline of ``tabular_model``.
    ValueError
        If two tasks have the same text.

    Notes
    -----
    Inputs are ``X`` (n, d), and ``task`` (n,), which is int64 if all labels are whole
    numbers and text otherwise (as in the property ``tasks`` of the file; "north / 12"
    for nested tasks). It has the name of the task column if the model has one.
    A model that was fitted on text columns has one input (n,) for each column instead
    of X. A model of one task, or of targets (n, m), has no input ``task``. Each crossed
    factor has an input (n,) of its own: text, int64 for whole numbers, and numbers (of
    days, for dates) else; levels that were not seen have no effect.

    Regressors have the output ``prediction``, which is the mean also of counts and
    amounts; columns of ``exposure`` and ``offset`` are inputs (n,) of their own.
    Classifiers have ``label``, ``score`` (the decision function) and, with logistic
    loss or more than two classes, ``probability``. Shapes are those of ``predict``,
    ``decision_function`` and ``predict_proba``.

    Tasks that were not seen in training are predicted as ``unseen_tasks`` says; with
    "error" the runtime stops with an error. For a row without a task give a label that
    no task has, such as an empty text. A missing number gives NaN, unless the
    model was fitted with ``missing="mean"``.

    Examples
    --------
    >>> import numpy as np
    >>> from priormtl import MultiTaskRegressor
    >>> from priormtl.export import to_onnx
    >>> X, y, task = np.eye(4), np.arange(4.0), ["a", "a", "b", "b"]
    >>> graph = to_onnx(MultiTaskRegressor().fit(X, y, task=task)).graph
    >>> [value.name for value in (*graph.input, *graph.output)]
    ['X', 'task', 'prediction']
    """
    if not isinstance(model, LinearMultiTask):
        kind = "a pipeline" if isinstance(model, Pipeline) else type(model).__name__
        raise TypeError(
            "model must be a MultiTaskRegressor, a MultiTaskClassifier or one of their "
            f"CV variants: got {kind}; use priormtl.save or joblib for other models."
        )
    check_is_fitted(model)
    if model.fitted_.drift is not None or model.fitted_.history is not None:
        raise ValueError(
            "model must have no levels that drift, nor last rows of tasks in its "
            "forecasts, to be exported. Fit it without time, or use priormtl.save."
        )
    check_choice("dtype", dtype, tuple(DTYPES))
    graph = _Graph(dtype)
    features = graph.read_features(model)
    by_column = model._targets_are_columns
    rows = _average_unseen(model)
    coef, intercept = model.coef_, model.intercept_
    if rows.averages is not None:
        coef = np.vstack([coef, rows.averages.coef(model.fitted_)])
        intercept = np.concatenate([intercept, rows.averages.intercept(model.fitted_)])
    if by_column:
        product = graph.add("MatMul", features, graph.number(coef.T))
        score = graph.add("Add", product, graph.number(intercept))
        codes = graph.constant(np.arange(len(coef)))
    else:
        codes = graph.find_tasks(model, rows)
        weights = graph.add("Gather", graph.number(coef), codes)
        if coef.ndim == 3:  # tasks, classes, features
            second = graph.constant(np.array([1]))
            features = graph.add("Unsqueeze", features, second)
        terms = graph.add("Mul", features, weights)
        axis = graph.constant(np.array([coef.ndim - 1]))
        total = graph.add("ReduceSum", terms, axis, keepdims=0)
        level = graph.add("Gather", graph.number(intercept), codes)
        score = graph.add("Add", total, level)
        for term, effects in _crossed_effects(model):
            score = graph.add("Add", score, graph.read_levels(term, effects))
    shape: Shape = ["n", len(coef)] if by_column else ["n"]
    if isinstance(model, ClassificationTasks) and model._n_classes == 1:
        score = graph.add("Unsqueeze", score, graph.constant(np.array([1])))
        graph.choose_class(score, model._classes[0])
    elif coef.ndim == 3:
        graph.choose_class(score, model._classes[0])
    elif isinstance(model, ClassificationTasks):
        # Unseen tasks have the classes of those averaged.
        known = RowTasks(np.arange(len(coef)), rows.averages).known(len(model.tasks_))
        classes = model._classes[known]
        graph.classify(score, codes, classes, shape, proba=model.loss == "logistic")
    else:
        for name, operator in _known_parts(model):
            part = graph.accept(name, graph.kind)
            if by_column:
                part = graph.add("Unsqueeze", part, graph.constant(np.array([1])))
            score = graph.add("Add", score, graph.add(operator, part))
        if model._family is not None:  # all that regressors take have log links
            score = graph.add("Exp", score)
        graph.publish("prediction", score, graph.kind, shape)
    return graph.build(model)


def _known_parts(model: LinearMultiTask) -> list[tuple[str, str]]:
    """Columns that scores have as a known part, and what is done to them."""
    given = vars(model)
    parts = (given.get("exposure"), "Log"), (given.get("offset"), "Identity")
    return [(name, operator) for name, operator in parts if name is not None]


def _average_unseen(model: LinearMultiTask) -> RowTasks:
    """Rows of unseen tasks: of each group of nested ones, and else one for all."""
    nothing = RowTasks(np.zeros(0, np.intp), None)
    if model.unseen_tasks == "error" or not _asks_for_task(model):
        return nothing
    groups = _groups(model) or [()]
    labels = [SEPARATOR.join([*map(str, group), UNKNOWN]) for group in groups]
    rows = place_rows(model.fitted_, model.unseen_tasks, labels, len(labels))
    try:
        model._check_averages(rows.averages)  # type: ignore[arg-type]
    except ValueError:  # classes differ by task: unseen ones are an error
        return nothing
    return rows


def _groups(model: LinearMultiTask) -> list[tuple[Hashable, ...]] | None:
    """Groups of nested tasks that labels name, from fine to coarse; None: no such."""
    prior = model.fitted_.task_prior
    tree = None if prior is None else prior.tree()
    if tree is None or tree.parents is not None:
        return None if tree is None else [()]
    return tree.nodes(tuple(model.tasks_.tolist()))[1]


def _crossed_effects(model: LinearMultiTask) -> list[tuple[Levels, Array]]:
    """Crossed factors with the effects of their levels."""
    fitted = model.fitted_
    if fitted.crossed is None or fitted.design is None:
        return []
    factors = fitted.design.crossed
    ends = np.cumsum([len(term.values) for term in factors])
    return list(zip(factors, np.split(fitted.crossed.effects, ends), strict=False))


def _asks_for_task(model: LinearMultiTask) -> bool:
    if model._targets_are_columns:
        return False
    return len(model.tasks_) > 1 or model.task is not None


def _spell_labels(tasks: list[Any]) -> tuple[str, Sequence[int | str]]:
    """Labels as ONNX has them: whole numbers, or text."""
    plain = [isinstance(task, Real) and not isinstance(task, bool) for task in tasks]
    if all(plain) and all(float(task).is_integer() for task in tasks):
        return "int64", [int(task) for task in tasks]
    texts = [str(task) for task in tasks]
    if len(set(texts)) < len(texts):
        raise ValueError(
            "tasks must differ as text in ONNX: got labels such as 1 and '1'; rename "
            "them before fit."
        )
    return "string", texts


class _Graph:
    """Nodes and constants of a graph that grows from its inputs to its outputs."""

    def __init__(self, dtype: str) -> None:
        self.dtype = dtype
        self.kind = DTYPES[dtype]
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[TensorProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.outputs: list[onnx.ValueInfoProto] = []

    def add(self, operator: str, *inputs: str, **attributes: object) -> str:
        """Name of the first result of a new node."""
        return self._add(operator, inputs, 1, attributes)[0]

    def _add(
        self,
        operator: str,
        inputs: Sequence[str],
        count: int,
        attributes: Mapping[str, object],
    ) -> list[str]:
        """Names of all results of a new node."""
        domain = ML if operator == "LabelEncoder" else ""
        results = [f"priormtl:{len(self.nodes)}:{k}" for k in range(count)]
        self.nodes.append(
            helper.make_node(operator, inputs, results, domain=domain, **attributes)
        )
        return results

    def constant(self, values: object) -> str:
        name = f"priormtl:constant {len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.asarray(values), name))
        return name

    def number(self, values: Array) -> str:
        return self.constant(np.ascontiguousarray(values, dtype=self.dtype))

    def accept(self, name: str, kind: int, *shape: object) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, kind, ["n", *shape]))
        return name

    def publish(self, name: str, value: str, kind: int, shape: Shape) -> None:
        while name in {one.name for one in self.inputs}:  # a column of this name
            name += "_"
        self.nodes.append(helper.make_node("Identity", [value], [name]))
        self.outputs.append(helper.make_tensor_value_info(name, kind, shape))

    def read_features(self, model: LinearMultiTask) -> str:
        """The features (n, d), encoded from columns where a model needs that."""
        design = model.fitted_.design
        if design is None or design.is_numeric:
            X = self.accept("X", self.kind, model.n_features_in_)
            fills = (
                [t.fill for t in design.terms if isinstance(t, Line)] if design else []
            )
            known = [np.nan if fill is None else fill for fill in fills]
            return X if np.isnan(known).all() else self._fill(X, np.array(known))
        parts = [
            self._read_term(term)
            for term in design.terms
            if not isinstance(term, Levels)
        ]
        return self.add("Concat", *parts, axis=1)

    def _read_term(self, term: Term) -> str:
        """Features (n, k) of one term."""
        if isinstance(term, Line):
            name = self.accept(term.source, self.kind)
            part = self.add("Unsqueeze", name, self.constant(np.array([1])))
            return (
                part if term.fill is None else self._fill(part, np.array([term.fill]))
            )
        if not isinstance(term, Categories):
            raise ValueError(
                "features of model must be numbers or categories to be exported: got "
                f"other features of {term.source!r}, such as a curve. Export a model "
                "that was fitted to plain columns, or use priormtl.save."
            )
        # Rows of a table: one per category, zeros for others, means for missing ones.
        k = len(term.values)
        means = np.full(k, np.nan) if term.fill is None else np.array(term.fill)
        table = np.vstack([np.eye(k), np.zeros(k), means])
        keys, rows = [*term.values, ""], [*range(k), k + 1]
        text = self.accept(term.source, TensorProto.STRING)
        place = self._look_up(text, "string", keys, rows, k)
        return self.add("Gather", self.number(table), place)

    def read_levels(self, term: Levels, effects: Array) -> str:
        """Effects (n,) of the levels of a crossed factor; zero where they are new."""
        kind, keys = "string", list[Any](term.values)
        element = TensorProto.STRING
        if term.holds != TEXTS:
            whole = all(float(value).is_integer() for value in term.values)
            kind = "int64" if whole else "float"
            element = TensorProto.INT64 if whole else self.kind
            keys = [int(value) if whole else float(value) for value in term.values]
        levels = self.accept(term.source, element)
        if kind == "float":
            if len(np.unique(np.asarray(keys, np.float32))) < len(keys):
                raise ValueError(
                    f"levels of {term.source!r} must differ in single precision, in "
                    "which ONNX looks up numbers. Make the column text before fit."
                )
            levels = self.add("Cast", levels, to=TensorProto.FLOAT)
        place = self._look_up(levels, kind, keys, list(range(len(keys))), len(keys))
        return self.add("Gather", self.number(np.append(effects, 0.0)), place)

    def _fill(self, part: str, means: Array) -> str:
        return self.add("Where", self.add("IsNaN", part), self.number(means), part)

    def _look_up(
        self,
        labels: str,
        kind: str,
        keys: Sequence[int | str],
        rows: list[int],
        default: int,
    ) -> str:
        """Row of each label in a table."""
        found: dict[str, object] = {f"keys_{kind}s": keys, "values_int64s": rows}
        found["default_int64"] = default
        return self.add("LabelEncoder", labels, **found)

    def find_tasks(self, model: LinearMultiTask, unseen: RowTasks) -> str:
        """Row of the table that each row of the data gets (n,)."""
        m = len(model.tasks_)
        if not _asks_for_task(model):
            # One task for all rows: as many zeros as there are rows.
            first = self.inputs[0].name
            shape = self.add("Shape", first, end=1)
            zero = helper.make_tensor("value", TensorProto.INT64, [1], [0])
            return self.add("ConstantOfShape", shape, value=zero)
        kind, keys = _spell_labels(model.tasks_.tolist())
        name = model.task if isinstance(model.task, str) else "task"
        if name in {one.name for one in self.inputs}:
            name = "task of row"
        element = TensorProto.INT64 if kind == "int64" else TensorProto.STRING
        labels = self.accept(name, element)
        groups = _groups(model)
        if unseen.averages is None or groups is None or len(groups) == 1:
            return self._look_up(labels, kind, keys, list(range(m)), m)
        row_of = dict(zip(groups, unseen.codes.tolist(), strict=True))
        found = self._look_up(labels, kind, keys, list(range(m)), -1)
        group = self._find_groups(labels, row_of)
        minus = self.constant(np.array(0))
        return self.add("Where", self.add("Less", found, minus), group, found)

    def _find_groups(self, labels: str, row_of: dict[tuple[Hashable, ...], int]) -> str:
        """Row of the finest known group in labels such as "north / 12"."""
        depth = max(map(len, row_of))
        # Enough separators, so that each label has a part at each level.
        tail = self.constant(np.array(SEPARATOR * depth, dtype=object))
        padded = self.add("StringConcat", labels, tail)
        cut = {"delimiter": SEPARATOR}
        parts = self._add("StringSplit", [padded], 2, cut)[0]
        count = self._add("StringSplit", [labels], 2, cut)[1]
        row, prefix = self.constant(np.array(row_of[()])), ""
        between = self.constant(np.array(SEPARATOR, dtype=object))
        for level in range(1, depth + 1):
            place = self.constant(np.array(level - 1))
            part = self.add("Gather", parts, place, axis=1)
            if prefix:
                prefix = self.add("StringConcat", prefix, between)
                part = self.add("StringConcat", prefix, part)
            prefix = part
            here = {group: k for group, k in row_of.items() if len(group) == level}
            keys = [SEPARATOR.join(map(str, group)) for group in here]
            found = self._look_up(prefix, "string", keys, list(here.values()), -1)
            known = self.add("GreaterOrEqual", found, self.constant(np.array(0)))
            inside = self.add("Greater", count, self.constant(np.array(level)))
            row = self.add("Where", self.add("And", known, inside), found, row)
        return row

    def classify(
        self,
        score: str,
        codes: str,
        classes: np.ndarray,
        shape: Shape,
        *,
        proba: bool,
    ) -> None:
        """Publish labels, scores and probabilities; classes (rows, 2)."""
        positive = self.add("Greater", score, self.number(np.zeros(())))
        place = self.add(
            "Add",
            self.add("Mul", codes, self.constant(np.array(2))),
            self.add("Cast", positive, to=TensorProto.INT64),
        )
        flat = classes.ravel()
        flat = flat.astype(object) if flat.dtype.kind == "U" else flat
        label = self.add("Gather", self.constant(flat), place)
        self.publish("label", label, self.constants[-1].data_type, shape)
        self.publish("score", score, self.kind, shape)
        if not proba:
            return
        second = self.add("Sigmoid", score)
        if len(shape) == 2:
            self.publish("probability", second, self.kind, shape)
            return
        first = self.add("Sigmoid", self.add("Neg", score))
        axis = self.constant(np.array([1]))
        both = [self.add("Unsqueeze", one, axis) for one in (first, second)]
        joined = self.add("Concat", *both, axis=1)
        self.publish("probability", joined, self.kind, ["n", 2])

    def choose_class(self, score: str, classes: np.ndarray) -> None:
        """Publish labels, scores and probabilities (n, K) of one class or of K > 2."""
        flat = classes.astype(object) if classes.dtype.kind == "U" else classes
        best = self.add("ArgMax", score, axis=1, keepdims=0)
        label = self.add("Gather", self.constant(flat), best)
        self.publish("label", label, self.constants[-1].data_type, ["n"])
        shape: Shape = ["n", len(classes)]
        self.publish("score", score, self.kind, shape)
        chance = self.add("Softmax", score, axis=1)
        self.publish("probability", chance, self.kind, shape)

    def build(self, model: LinearMultiTask) -> onnx.ModelProto:
        """The whole, checked."""
        name = type(model).__name__
        graph = helper.make_graph(
            self.nodes, name, self.inputs, self.outputs, self.constants
        )
        opset = 20  # the first with StringSplit and StringConcat
        opsets = [helper.make_opsetid("", opset), helper.make_opsetid(ML, 3)]
        ir_version = 9
        made = helper.make_model(
            graph,
            opset_imports=opsets,
            ir_version=ir_version,
            producer_name="priormtl",
            producer_version=version("priormtl"),
        )
        names = () if model.fitted_.design is None else model.fitted_.design
        labels = _spell_labels(model.tasks_.tolist())[1]
        said = {"tasks": json.dumps(labels), "features": json.dumps(list(names))}
        helper.set_model_props(made, said)
        onnx.checker.check_model(made, full_check=True)
        return made
