"""Texts of the kind that benchmarks of decision support use: TPC-H, and shapes of TPC-DS.

Nobody wrote down what comes of them: the plan and the text are compared with each other.
"""

from __future__ import annotations

from typing import Final

NAMESPACE: Final = "tpc"
SCHEMAS: Final = {
    "part": (
        "p_partkey long, p_name string, p_mfgr string, p_brand string, p_type string, p_size int, "
        "p_container string, p_retailprice decimal(15,2), p_comment string"
    ),
    "supplier": (
        "s_suppkey long, s_name string, s_address string, s_nationkey long, s_phone string, "
        "s_acctbal decimal(15,2), s_comment string"
    ),
    "partsupp": (
        "ps_partkey long, ps_suppkey long, ps_availqty int, ps_supplycost decimal(15,2), "
        "ps_comment string"
    ),
    "customer": (
        "c_custkey long, c_name string, c_address string, c_nationkey long, c_phone string, "
        "c_acctbal decimal(15,2), c_mktsegment string, c_comment string"
    ),
    "orders": (
        "o_orderkey long, o_custkey long, o_orderstatus string, o_totalprice decimal(15,2), "
        "o_orderdate date, o_orderpriority string, o_clerk string, o_shippriority int, "
        "o_comment string"
    ),
    "lineitem": (
        "l_orderkey long, l_partkey long, l_suppkey long, l_linenumber int, "
        "l_quantity decimal(15,2), l_extendedprice decimal(15,2), l_discount decimal(15,2), "
        "l_tax decimal(15,2), l_returnflag string, l_linestatus string, l_shipdate date, "
        "l_commitdate date, l_receiptdate date, l_shipinstruct string, l_shipmode string, "
        "l_comment string"
    ),
    "nation": "n_nationkey long, n_name string, n_regionkey long, n_comment string",
    "region": "r_regionkey long, r_name string, r_comment string",
}

TPC_H: Final = (
    """
    select l_returnflag, l_linestatus, sum(l_quantity) as sum_qty,
           sum(l_extendedprice) as sum_base_price,
           sum(l_extendedprice * (1 - l_discount)) as sum_disc_price,
           sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) as sum_charge,
           avg(l_quantity) as avg_qty, avg(l_extendedprice) as avg_price,
           avg(l_discount) as avg_disc, count(*) as count_order
    from {lineitem} where l_shipdate <= date '1998-12-01' - interval '90' day
    group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus
    """,
    """
    select s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_address, s_phone, s_comment
    from {part}, {supplier}, {partsupp}, {nation}, {region}
    where p_partkey = ps_partkey and s_suppkey = ps_suppkey and p_size = 15
      and p_type like '%BRASS' and s_nationkey = n_nationkey and n_regionkey = r_regionkey
      and r_name = 'EUROPE' and ps_supplycost = (
        select min(ps_supplycost) from {partsupp}, {supplier}, {nation}, {region}
        where p_partkey = ps_partkey and s_suppkey = ps_suppkey and s_nationkey = n_nationkey
          and n_regionkey = r_regionkey and r_name = 'EUROPE')
    order by s_acctbal desc, n_name, s_name, p_partkey limit 100
    """,
    """
    select l_orderkey, sum(l_extendedprice * (1 - l_discount)) as revenue, o_orderdate,
           o_shippriority
    from {customer}, {orders}, {lineitem}
    where c_mktsegment = 'BUILDING' and c_custkey = o_custkey and l_orderkey = o_orderkey
      and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
    group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate limit 10
    """,
    """
    select o_orderpriority, count(*) as order_count from {orders}
    where o_orderdate >= date '1993-07-01' and o_orderdate < date '1993-07-01' + interval '3' month
      and exists (select * from {lineitem}
                  where l_orderkey = o_orderkey and l_commitdate < l_receiptdate)
    group by o_orderpriority order by o_orderpriority
    """,
    """
    select n_name, sum(l_extendedprice * (1 - l_discount)) as revenue
    from {customer}, {orders}, {lineitem}, {supplier}, {nation}, {region}
    where c_custkey = o_custkey and l_orderkey = o_orderkey and l_suppkey = s_suppkey
      and c_nationkey = s_nationkey and s_nationkey = n_nationkey and n_regionkey = r_regionkey
      and r_name = 'ASIA' and o_orderdate >= date '1994-01-01'
    group by n_name order by revenue desc
    """,
    """
    select sum(l_extendedprice * l_discount) as revenue from {lineitem}
    where l_shipdate >= date '1994-01-01' and l_discount between 0.05 and 0.07 and l_quantity < 24
    """,
    """
    select supp_nation, cust_nation, l_year, sum(volume) as revenue from (
      select n1.n_name as supp_nation, n2.n_name as cust_nation,
             extract(year from l_shipdate) as l_year,
             l_extendedprice * (1 - l_discount) as volume
      from {supplier}, {lineitem}, {orders}, {customer}, {nation} n1, {nation} n2
      where s_suppkey = l_suppkey and o_orderkey = l_orderkey and c_custkey = o_custkey
        and s_nationkey = n1.n_nationkey and c_nationkey = n2.n_nationkey
        and ((n1.n_name = 'FRANCE' and n2.n_name = 'GERMANY')
          or (n1.n_name = 'GERMANY' and n2.n_name = 'FRANCE'))
        and l_shipdate between date '1995-01-01' and date '1996-12-31') as shipping
    group by supp_nation, cust_nation, l_year order by supp_nation, cust_nation, l_year
    """,
    """
    select o_year, sum(case when nation = 'BRAZIL' then volume else 0 end) / sum(volume)
             as mkt_share
    from (select extract(year from o_orderdate) as o_year,
                 l_extendedprice * (1 - l_discount) as volume, n2.n_name as nation
          from {part}, {supplier}, {lineitem}, {orders}, {customer}, {nation} n1, {nation} n2,
               {region}
          where p_partkey = l_partkey and s_suppkey = l_suppkey and l_orderkey = o_orderkey
            and o_custkey = c_custkey and c_nationkey = n1.n_nationkey
            and n1.n_regionkey = r_regionkey and r_name = 'AMERICA'
            and s_nationkey = n2.n_nationkey and p_type = 'ECONOMY ANODIZED STEEL') as all_nations
    group by o_year order by o_year
    """,
    """
    select nation, o_year, sum(amount) as sum_profit from (
      select n_name as nation, extract(year from o_orderdate) as o_year,
             l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity as amount
      from {part}, {supplier}, {lineitem}, {partsupp}, {orders}, {nation}
      where s_suppkey = l_suppkey and ps_suppkey = l_suppkey and ps_partkey = l_partkey
        and p_partkey = l_partkey and o_orderkey = l_orderkey and s_nationkey = n_nationkey
        and p_name like '%green%') as profit
    group by nation, o_year order by nation, o_year desc
    """,
    """
    select c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) as revenue, c_acctbal,
           n_name, c_address, c_phone, c_comment
    from {customer}, {orders}, {lineitem}, {nation}
    where c_custkey = o_custkey and l_orderkey = o_orderkey and o_orderdate >= date '1993-10-01'
      and l_returnflag = 'R' and c_nationkey = n_nationkey
    group by c_custkey, c_name, c_acctbal, c_phone, n_name, c_address, c_comment
    order by revenue desc limit 20
    """,
    """
    select ps_partkey, sum(ps_supplycost * ps_availqty) as value
    from {partsupp}, {supplier}, {nation}
    where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY'
    group by ps_partkey having sum(ps_supplycost * ps_availqty) > (
      select sum(ps_supplycost * ps_availqty) * 0.0001 from {partsupp}, {supplier}, {nation}
      where ps_suppkey = s_suppkey and s_nationkey = n_nationkey and n_name = 'GERMANY')
    order by value desc
    """,
    """
    select l_shipmode,
           sum(case when o_orderpriority = '1-URGENT' or o_orderpriority = '2-HIGH'
               then 1 else 0 end) as high_line_count,
           sum(case when o_orderpriority <> '1-URGENT' and o_orderpriority <> '2-HIGH'
               then 1 else 0 end) as low_line_count
    from {orders}, {lineitem}
    where o_orderkey = l_orderkey and l_shipmode in ('MAIL', 'SHIP')
      and l_commitdate < l_receiptdate and l_shipdate < l_commitdate
    group by l_shipmode order by l_shipmode
    """,
    """
    select c_count, count(*) as custdist from (
      select c_custkey, count(o_orderkey) as c_count from {customer}
      left outer join {orders} on c_custkey = o_custkey
        and o_comment not like '%special%requests%' group by c_custkey) as c_orders
    group by c_count order by custdist desc, c_count desc
    """,
    """
    select 100.00 * sum(case when p_type like 'PROMO%' then l_extendedprice * (1 - l_discount)
                        else 0 end) / sum(l_extendedprice * (1 - l_discount)) as promo_revenue
    from {lineitem}, {part} where l_partkey = p_partkey and l_shipdate >= date '1995-09-01'
    """,
    """
    with revenue as (
      select l_suppkey as supplier_no, sum(l_extendedprice * (1 - l_discount)) as total_revenue
      from {lineitem} where l_shipdate >= date '1996-01-01' group by l_suppkey)
    select s_suppkey, s_name, s_address, s_phone, total_revenue from {supplier}, revenue
    where s_suppkey = supplier_no and total_revenue = (select max(total_revenue) from revenue)
    order by s_suppkey
    """,
    """
    select p_brand, p_type, p_size, count(distinct ps_suppkey) as supplier_cnt
    from {partsupp}, {part}
    where p_partkey = ps_partkey and p_brand <> 'Brand#45' and p_type not like 'MEDIUM POLISHED%'
      and p_size in (49, 14, 23, 45, 19, 3, 36, 9) and ps_suppkey not in (
        select s_suppkey from {supplier} where s_comment like '%Customer%Complaints%')
    group by p_brand, p_type, p_size order by supplier_cnt desc, p_brand, p_type, p_size
    """,
    """
    select sum(l_extendedprice) / 7.0 as avg_yearly from {lineitem}, {part}
    where p_partkey = l_partkey and p_brand = 'Brand#23' and p_container = 'MED BOX'
      and l_quantity < (select 0.2 * avg(l_quantity) from {lineitem} where l_partkey = p_partkey)
    """,
    """
    select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
    from {customer}, {orders}, {lineitem}
    where o_orderkey in (select l_orderkey from {lineitem} group by l_orderkey
                         having sum(l_quantity) > 300)
      and c_custkey = o_custkey and o_orderkey = l_orderkey
    group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
    order by o_totalprice desc, o_orderdate limit 100
    """,
    """
    select sum(l_extendedprice * (1 - l_discount)) as revenue from {lineitem}, {part}
    where (p_partkey = l_partkey and p_brand = 'Brand#12' and p_container in ('SM CASE', 'SM BOX')
           and l_quantity >= 1 and l_quantity <= 11 and p_size between 1 and 5
           and l_shipmode in ('AIR', 'AIR REG') and l_shipinstruct = 'DELIVER IN PERSON')
       or (p_partkey = l_partkey and p_brand = 'Brand#23' and p_size between 1 and 10)
    """,
    """
    select s_name, s_address from {supplier}, {nation}
    where s_suppkey in (
      select ps_suppkey from {partsupp}
      where ps_partkey in (select p_partkey from {part} where p_name like 'forest%')
        and ps_availqty > (select 0.5 * sum(l_quantity) from {lineitem}
                           where l_partkey = ps_partkey and l_suppkey = ps_suppkey
                             and l_shipdate >= date '1994-01-01'))
      and s_nationkey = n_nationkey and n_name = 'CANADA'
    order by s_name
    """,
    """
    select s_name, count(*) as numwait from {supplier}, {lineitem} l1, {orders}, {nation}
    where s_suppkey = l1.l_suppkey and o_orderkey = l1.l_orderkey and o_orderstatus = 'F'
      and l1.l_receiptdate > l1.l_commitdate
      and exists (select * from {lineitem} l2 where l2.l_orderkey = l1.l_orderkey
                  and l2.l_suppkey <> l1.l_suppkey)
      and not exists (select * from {lineitem} l3 where l3.l_orderkey = l1.l_orderkey
                      and l3.l_suppkey <> l1.l_suppkey and l3.l_receiptdate > l3.l_commitdate)
      and s_nationkey = n_nationkey and n_name = 'SAUDI ARABIA'
    group by s_name order by numwait desc, s_name limit 100
    """,
    """
    select cntrycode, count(*) as numcust, sum(c_acctbal) as totacctbal from (
      select substring(c_phone, 1, 2) as cntrycode, c_acctbal from {customer}
      where substring(c_phone, 1, 2) in ('13', '31', '23', '29', '30', '18', '17')
        and c_acctbal > (select avg(c_acctbal) from {customer} where c_acctbal > 0.00
                         and substring(c_phone, 1, 2) in ('13', '31', '23'))
        and not exists (select * from {orders} where o_custkey = c_custkey)) as custsale
    group by cntrycode order by cntrycode
    """,
)
DECISION_SUPPORT: Final = (
    # a total above an average of its own group
    """
    with t as (select o_custkey k, o_clerk c, sum(o_totalprice) v from {orders} group by 1, 2)
    select c_name from t a, {customer} where a.v > (
      select avg(v) * 1.2 from t b where a.c = b.c) and c_custkey = a.k order by c_name limit 100
    """,
    # several channels, united and rolled up
    """
    with sales as (
      select 'store' as channel, l_partkey as item, sum(l_extendedprice) as value, count(*) as n
      from {lineitem} group by l_partkey
      union all
      select 'supply', ps_partkey, sum(ps_supplycost), sum(ps_availqty)
      from {partsupp} group by ps_partkey)
    select channel, item, sum(value), sum(n) from sales group by rollup (channel, item)
    order by channel, item limit 100
    """,
    # what is in all of three sets
    """
    with both as (
      select p_brand b, p_size z from {part} join {lineitem} on l_partkey = p_partkey
      intersect select p_brand, p_size from {part} join {partsupp} on ps_partkey = p_partkey
      except select p_brand, p_size from {part} where p_size > 40)
    select p_partkey, p_name from {part}, both where p_brand = b and p_size = z
    """,
    # a rank within each level of a hierarchy
    """
    select sum(l_extendedprice) / sum(l_quantity) as margin, p_mfgr, p_brand,
           grouping(p_mfgr) + grouping(p_brand) as lochierarchy,
           rank() over (partition by grouping(p_mfgr) + grouping(p_brand),
             case when grouping(p_brand) = 0 then p_mfgr end
             order by sum(l_extendedprice) / sum(l_quantity) asc) as rank_within_parent
    from {lineitem} join {part} on p_partkey = l_partkey group by rollup (p_mfgr, p_brand)
    order by lochierarchy desc, case when lochierarchy = 0 then p_mfgr end, rank_within_parent
    """,
    # each month beside the one before and the one after
    """
    with v1 as (
      select p_brand, month(l_shipdate) m, sum(l_extendedprice) s,
             avg(sum(l_extendedprice)) over (partition by p_brand, year(l_shipdate)) a,
             rank() over (partition by p_brand order by year(l_shipdate), month(l_shipdate)) rn
      from {lineitem}, {part} where l_partkey = p_partkey
      group by p_brand, year(l_shipdate), month(l_shipdate)),
    v2 as (
      select v1.*, lag.s psum, lead.s nsum from v1, v1 lag, v1 lead
      where v1.p_brand = lag.p_brand and v1.p_brand = lead.p_brand
        and v1.rn = lag.rn + 1 and v1.rn = lead.rn - 1)
    select * from v2 where a > 0 and abs(s - a) / a > 0.1 order by s - a, 3
    """,
    # a share of a class
    """
    select p_name, p_type, sum(l_extendedprice) as revenue,
           sum(l_extendedprice) * 100 / sum(sum(l_extendedprice)) over (partition by p_type) share
    from {lineitem}, {part} where l_partkey = p_partkey group by p_name, p_type
    """,
    # days of the week as columns
    """
    select o_clerk,
           sum(case when dayofweek(o_orderdate) = 1 then o_totalprice else null end) sun,
           sum(case when dayofweek(o_orderdate) = 2 then o_totalprice else null end) mon
    from {orders} group by o_clerk having count(distinct o_custkey) > 1
    """,
    # scalar sub-queries in a CASE
    """
    select case when (select count(*) from {lineitem} where l_quantity between 1 and 20) > 74129
                then (select avg(l_discount) from {lineitem} where l_quantity between 1 and 20)
                else (select avg(l_tax) from {lineitem} where l_quantity between 1 and 20) end b
    from {region} where r_regionkey = 1
    """,
    # customers of one channel and not of the other
    """
    select distinct c_name, c_phone, coalesce(n_name, '-') nation from {customer}
    left join {nation} on n_nationkey = c_nationkey
    where c_custkey in (select o_custkey from {orders}) and c_custkey not in (
      select o_custkey from {orders} where o_orderstatus = 'O')
    """,
    # running sums of two sides, joined whole
    """
    with web as (select l_partkey item, l_shipdate d,
                   sum(sum(l_quantity)) over (partition by l_partkey order by l_shipdate
                     rows between unbounded preceding and current row) cume
                 from {lineitem} group by l_partkey, l_shipdate),
    store as (select ps_partkey item, date '2000-01-01' d, sum(ps_availqty) cume
              from {partsupp} group by ps_partkey)
    select * from (
      select coalesce(web.item, store.item) item, coalesce(web.d, store.d) d,
             max(web.cume) over (partition by coalesce(web.item, store.item)) w
      from web full outer join store on web.item = store.item and web.d = store.d) x
    where w > 10 order by item, d limit 100
    """,
)
