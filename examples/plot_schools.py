"""
Schools in districts
====================

Schools in one district are more similar than schools in different districts. With
``task=["district", "school"]``, the effects of a school vary around those of its
district, and these vary around common effects. The data are simulated from the
three-level model of Raudenbush and Bryk (*Hierarchical Linear Models*, 2002).
"""

# %%
# Six districts have five schools each. Each school has a few pupils for training and 50
# pupils for testing.
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd

from priormtl import MultiTaskRegressor


def make_pupils(pupils, seed):
    """Return pupils, and which rows are used for training."""
    rng = np.random.default_rng(seed)
    school = np.repeat(np.arange(30), pupils + 50)
    district = np.repeat(np.arange(6), 5)
    X = pd.DataFrame({"district": [f"district {d}" for d in district[school]]})
    X["school"] = [f"school {number:02}" for number in school]
    X["test"] = rng.normal(size=len(school))
    level = 6.0 * rng.normal(size=6)[district] + 2.0 * rng.normal(size=30)
    slope = 4.0 + 1.5 * rng.normal(size=6)[district] + 0.5 * rng.normal(size=30)
    y = 50.0 + level[school] + slope[school] * X["test"]
    y += 8.0 * rng.normal(size=len(school))
    return X, y, np.arange(len(school)) % (pupils + 50) < pupils


def fit(X, y, task_prior="nested"):
    """Fit effects of schools within districts, or around one mean."""
    model = MultiTaskRegressor(
        lam=0.0,
        task=["district", "school"],
        task_prior=task_prior,
        fit_intercept="tied",
        ties="adaptive",
        unseen_tasks="shared",
    )
    return model.fit(X, y)


def shuffle_districts(X, seed=0):
    """Return the table with schools in districts drawn at random."""
    rng = np.random.default_rng(seed)
    schools = X["school"].unique()
    drawn = dict(zip(schools, rng.permutation(len(schools)) % 6, strict=True))
    return X.assign(district=[f"district {drawn[name]}" for name in X["school"]])


# %%
# Compare schools around one mean, schools in their districts, and schools in districts
# drawn at random. Districts help with few pupils. Wrong ones cost little, because REML
# finds that they do not differ.
print("pupils    mean  nested   wrong")
for pupils in (4, 8, 40):
    errors = []
    for seed in range(10):
        X, y, train = make_pupils(pupils, seed)
        other = shuffle_districts(X)
        found = [
            fit(X[train], y[train], "mean").predict(X[~train]),
            fit(X[train], y[train]).predict(X[~train]),
            fit(other[train], y[train]).predict(other[~train]),
        ]
        errors.append([np.sqrt(np.mean((one - y[~train]) ** 2)) for one in found])
    print(f"{pupils:6}" + "".join(f"{e:8.2f}" for e in np.mean(errors, axis=0)))

# %%
# A new school is predicted by the mean of its district.
X, y, train = make_pupils(4, 0)
model = fit(X[train], y[train])
new = pd.DataFrame({"district": ["district 0", "district 1"], "school": "new"})
new["predicted"] = model.predict(new.assign(test=0.0)).round(1)
print(new.to_string(index=False))

# %%
# Plot the estimated levels of schools by district. Schools are shrunk towards the mean
# of their district.
figure, ax = plt.subplots(figsize=(7, 4), layout="constrained")
names = [str(label).split(" / ")[0] for label in model.tasks_]
means = y[train].groupby([X["district"][train], X["school"][train]]).mean()
ax.plot(names, means, "o", color="0.7", label="mean of four pupils")
ax.plot(names, model.intercept_, "o", label="estimated level")
ax.set(ylabel="score", title="Simulated schools: levels are shrunk to their district")
ax.legend()
