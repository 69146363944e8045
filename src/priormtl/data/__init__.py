"""What was observed: samples of many tasks, and the statistics that replace them."""

from priormtl.data.building import build_frame, find_frame_library
from priormtl.data.classes import one_vs_one, one_vs_rest
from priormtl.data.condense import (
    accumulate,
    condense,
    statistics_pay,
    summarize,
    to_tasks,
)
from priormtl.data.encoding import POLICIES, Encoding, read_encoding
from priormtl.data.frames import (
    as_frame,
    column_names,
    from_frame,
    read_matrix,
    read_targets,
    split_task_column,
)
from priormtl.data.labels import (
    arrow_categories,
    declares_order,
    encode_labels,
    find_labels,
    label_categories,
    place_labels,
)
from priormtl.data.lists import from_lists, stack_tasks
from priormtl.data.merging import align_tasks
from priormtl.data.moments import (
    Moments,
    pooled_means,
    pooled_scale,
    pooled_variance,
)
from priormtl.data.names import (
    from_plain,
    name_features,
    tasks_from_plain,
    tasks_to_plain,
    to_plain,
    unnamed_feature,
)
from priormtl.data.orders import TaskOrder, keep_tasks, merge_tasks
from priormtl.data.raw_columns import RawColumn
from priormtl.data.rows import take_rows
from priormtl.data.samples import CentredSamples, centre_samples, shift_samples
from priormtl.data.small_tasks import check_min_rows, large_tasks
from priormtl.data.statistics import TaskStatistics
from priormtl.data.streamed import StreamedMoments
from priormtl.data.summarizing import summarize_tasks
from priormtl.data.tables import Table
from priormtl.data.tasks import (
    SharedRows,
    StackedRows,
    TaskData,
    from_codes,
    from_columns,
    from_labels,
)
from priormtl.data.tiny import refuse_tiny

__all__ = [
    "POLICIES",
    "CentredSamples",
    "Encoding",
    "Moments",
    "RawColumn",
    "SharedRows",
    "StackedRows",
    "StreamedMoments",
    "Table",
    "TaskData",
    "TaskOrder",
    "TaskStatistics",
    "accumulate",
    "align_tasks",
    "arrow_categories",
    "as_frame",
    "build_frame",
    "centre_samples",
    "check_min_rows",
    "column_names",
    "condense",
    "declares_order",
    "encode_labels",
    "find_frame_library",
    "find_labels",
    "from_codes",
    "from_columns",
    "from_frame",
    "from_labels",
    "from_lists",
    "from_plain",
    "keep_tasks",
    "label_categories",
    "large_tasks",
    "merge_tasks",
    "name_features",
    "one_vs_one",
    "one_vs_rest",
    "place_labels",
    "pooled_means",
    "pooled_scale",
    "pooled_variance",
    "read_encoding",
    "read_matrix",
    "read_targets",
    "refuse_tiny",
    "shift_samples",
    "split_task_column",
    "stack_tasks",
    "statistics_pay",
    "summarize",
    "summarize_tasks",
    "take_rows",
    "tasks_from_plain",
    "tasks_to_plain",
    "to_plain",
    "to_tasks",
    "unnamed_feature",
]
