"""Pools to look at."""
import random


def tenants(pool):
    pool.add_tenant("research", "--memory=1200GiB", "--reserved=640GiB", "--slices=any")
    pool.add_tenant("vision", "--parent=research", "--memory=640GiB", "--slices=any")
    pool.add_tenant("language", "--parent=research", "--memory=800GiB", "--max_leases=40", "--slices=any")
    pool.add_tenant("products", "--memory=640GiB", "--slices=any")
    pool.add_tenant("search-ranking", "--parent=products", "--slices=any")
    pool.add_tenant("students", "--memory=80GiB", "--slices=small,medium")


def slices(pool):
    pool.warpline("slice", "add", "small", "--memory=10GiB", "--sm_percent=10", "--sessions=2")
    pool.warpline("slice", "add", "medium", "--memory=20GiB", "--sm_percent=25", "--sessions=4")
    pool.warpline("slice", "add", "large", "--memory=40GiB", "--sm_percent=50", "--sessions=8")


def idle(pool):
    slices(pool)
    tenants(pool)
    for i in range(4):
        pool.add_server("gpu-a%02d" % (i + 1))


def busy(pool, hosts=12, seed=7):
    slices(pool)
    tenants(pool)
    for i in range(hosts):
        pool.add_server("gpu-%s%02d" % ("ab"[i % 2], i // 2 + 1))
    draw = random.Random(seed)
    programs = ["train_vit.py", "finetune_llm.py", "serve_ranker", "jupyter-lab", "eval.py --suite=all"]
    for tenant in ("language", "language", "vision", "search-ranking"):
        pool.lease(tenant, 70, gpus=4, sessions=4, program="train_vit.py")
    for i in range(40):
        tenant = draw.choice(["vision", "language", "search-ranking"])
        try:
            pool.lease(tenant, draw.choice([8, 10, 16, 24]), sessions=draw.randint(1, 5), program=draw.choice(programs))
        except AssertionError:
            continue
    for _ in range(3):
        pool.lease("students", 0, sessions=1, slice_name="small", program="homework.py")
    pool.lease("students", 0, sessions=2, slice_name="medium", program="jupyter-lab")
    pool.wait("students", 60, program="project.py")
    pool.wait("search-ranking", 79, gpus=8, program="nightly_rank")
    for _ in range(2):
        pool.wait("language", 20, gang="pretrain-13b", members=4, program="torchrun")
    pool.wait("products", 76, gpus=8, program="backfill")


def broken(pool):
    busy(pool, hosts=8)
    pool.warpline("servers", "cordon", "gpu-b01", "--reason=fan 3 is loud; ticket 4711")
    pool.warpline("servers", "drain", "gpu-b02", "--within=40m", "--reason=kernel update")
    pool.fill("silence", "gpu-a03")


def large(pool, hosts=125, leases=3000, seed=11):
    slices(pool)
    draw = random.Random(seed)
    for org in range(6):
        pool.add_tenant("org-%d" % org, "--reserved=%dGiB" % draw.choice([2000, 4000]), "--slices=any")
        for team in range(5):
            pool.add_tenant("org-%d-team-%d" % (org, team), "--parent=org-%d" % org, "--slices=any")
    teams = [name for name in pool.tenants if "team" in name]
    for i in range(hosts):
        pool.add_server("rack%02d-host%d" % (i // 8 + 1, i % 8 + 1))
    for _ in range(leases):
        size = draw.choices([2, 5, 10, 20, 40, 76], [8, 6, 5, 3, 1, 1])[0]
        try:
            pool.lease(draw.choice(teams), size, sessions=draw.randint(1, 4), program="train-%d.py" % draw.randint(1, 99))
        except AssertionError as error:
            if "no capacity" not in str(error):
                raise
    for _ in range(60):
        pool.wait(draw.choice(teams), 79, gpus=draw.choice([2, 4, 8]))
