"""How the documentation is built: `make docs`, where warnings are errors."""

import sys
from pathlib import Path

import priormtl

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE / "extensions"))

project = "priormtl"
author = copyright = "The priormtl developers"
version = release = priormtl.__version__

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "native_math",
    "command_reference",
]
myst_enable_extensions = ["amsmath", "colon_fence", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build", "extensions", "results/table*.md"]
html_math_renderer = "mathml"

autosummary_generate = True
templates_path = ["templates"]
autodoc_typehints = "none"  # numpydoc says them in words
numpydoc_show_class_members = False
numpydoc_class_members_toctree = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "min_reported_time": 3600,
    "remove_config_comments": True,
}

html_theme = "pydata_sphinx_theme"
html_title = "priormtl"
html_static_path = ["static"]
html_css_files = ["priormtl.css"]
html_show_sourcelink = False
html_theme_options = {
    "navigation_with_keys": False,
    "show_prev_next": False,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_sidebars = {"tutorial": [], "index": []}
