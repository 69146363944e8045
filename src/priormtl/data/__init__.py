"""What was observed: samples of many tasks, and the statistics that replace them."""

from priormtl.data.blocks import (
    Block,
    Chunk,
    HeldTasks,
    SortedRows,
    Sums,
    Tasks,
    add_sums,
    chosen_tasks,
    compress,
    label_array,
)
from priormtl.data.device import (
    DeviceGrams,
    DeviceRows,
    find_device,
    host_array,
    lives_on_device,
)
from priormtl.data.labels import (
    SEPARATOR,
    UNKNOWN,
    TaskOrder,
    arrow_categories,
    declares_order,
    encode_labels,
    find_labels,
    find_task_columns,
    from_plain,
    join_labels,
    join_names,
    keep_tasks,
    label_categories,
    merge_tasks,
    name_features,
    place_labels,
    refuse_crossed,
    refuse_unnamed,
    tasks_from_plain,
    tasks_to_plain,
    to_plain,
    unnamed_feature,
)
from priormtl.data.moments import (
    CentredSamples,
    centre_samples,
    pooled_means,
    pooled_scale,
    pooled_variance,
    refuse_tiny,
    shift_samples,
    task_errors,
)
from priormtl.data.on_disk import StreamedGrams
from priormtl.data.statistics import (
    Moments,
    TaskStatistics,
    align_tasks,
    check_statistics,
)
from priormtl.data.summarizing import (
    check_min_rows,
    condense,
    large_tasks,
    statistics_pay,
    summarize,
    summarize_tasks,
    to_device,
)
from priormtl.data.tables import (
    fill_absent,
    one_vs_one,
    one_vs_rest,
    read_matrix,
    read_targets,
    split_offset_columns,
    split_task_column,
    stack_tasks,
    take_rows,
)
from priormtl.data.tasks import (
    SharedRows,
    StackedRows,
    Table,
    TaskData,
    from_codes,
    from_columns,
    from_labels,
    score_by_task,
    strata_of,
    to_tasks,
)
