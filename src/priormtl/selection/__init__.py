"""Strengths and structures chosen by cross-validation, and outlier tasks."""

from priormtl.data import strata_of
from priormtl.selection.folds import (
    Fold,
    Split,
    align_parts,
    as_splits,
    deal_groups,
    deal_rows,
    divide,
    fill_missing,
    find_partition,
    leave_one_out,
    missing_tasks,
    most_forward_splits,
    split_by_fold,
    split_forward,
    summarize_parts,
    take_test,
    take_training,
    task_places,
)
from priormtl.selection.held_out import (
    QUESTIONS,
    Calibration,
    FoldModels,
    HeldOut,
    Residuals,
    Spread,
    check_coverage,
    codes_among,
    from_errors,
    hold_out,
    normal_calibration,
    refit_folds,
    score_folds,
)
from priormtl.selection.history import History, mix, weigh_origins
from priormtl.selection.outlier_test import find_outliers
from priormtl.selection.outliers import (
    OwnChoice,
    choose_outliers,
    column_pulls,
    fit_outlier_path,
    fit_outliers,
    pose_outliers,
    propose_outliers,
    search_outliers,
    solve_outliers,
    suggest_strength,
)
from priormtl.selection.scores import (
    FamilyLoss,
    MeanAuc,
    RowError,
    Score,
    StatisticsError,
    validation_errors,
)
from priormtl.selection.search import (
    RULES,
    Candidate,
    SearchData,
    SearchFold,
    SearchResult,
    Setup,
    Trial,
    choose_candidate,
    choose_structure,
    mean_scores,
    results_table,
    run_jobs,
    search,
    search_structures,
)
from priormtl.selection.structure import (
    EPSILONS,
    THETAS,
    Grid,
    Strengths,
    Structure,
    open_choices,
    read_lams,
)
