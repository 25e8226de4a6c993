use std::vec;

use futures_util::{StreamExt, TryStreamExt, stream};

use crate::model::{Entity, Key, TableName};
use crate::query::{AccessPath, Page, Plan, Query, Select};
use crate::store::{Handle, Hidden, QueryCursor, Result, Step, Stepped, TableStore};

/// How a typed query is read.
pub(super) enum Steps {
    /// In the order of the store.
    AsRead(Reads),
    /// All of it, then sorted and cut.
    Sorted(Reads, Left),
}

/// The requests of a query.
pub(super) enum Reads {
    /// Queries, one after another.
    Queries(Queries),
    /// Point reads.
    Points(Points),
}

/// How many entities are still wanted; `None` for all.
type Left = Option<usize>;

pub(super) struct Queries {
    current: QueryCursor,
    next: vec::IntoIter<Query>,
    page_size: Option<usize>,
    left: Left,
    hidden: Hidden,
}

pub(super) struct Points {
    points: vec::IntoIter<Point>,
    select: Option<Select>,
    concurrency: usize,
    left: Left,
    hidden: Hidden,
}

/// What finds one entity, or none.
enum Point {
    Key(Key),
    /// A key, and something else that is asked of the entity.
    Query(Query),
}

impl Reads {
    /// The query, whose `top` bounds the whole; `None` if there is nothing to ask for.
    pub(super) fn of_query(query: Query, page_size: Option<usize>, hidden: Hidden) -> Option<Self> {
        let left = query.top;
        Queries::start(vec![query].into_iter(), page_size, left, hidden).map(Self::Queries)
    }

    /// The query by its plan.
    pub(super) fn of_plan(
        plan: Plan,
        query: Query,
        page_size: Option<usize>,
        concurrency: usize,
        hidden: Hidden,
    ) -> Option<Self> {
        let Query { select, top: left, .. } = query;
        let points: Vec<Point> = match plan {
            Plan::Points(keys) => keys.into_iter().map(Point::Key).collect(),
            Plan::Ranges(queries) if queries.iter().all(|q| q.access_path() == AccessPath::Point) => {
                queries.into_iter().map(Point::Query).collect()
            }
            Plan::Ranges(queries) => {
                return Queries::start(queries.into_iter(), page_size, left, hidden).map(Self::Queries);
            }
        };
        let nothing = points.is_empty() || left == Some(0);
        let points = Points { points: points.into_iter(), select, concurrency, left, hidden };
        (!nothing).then_some(Self::Points(points))
    }
}

impl Step for Steps {
    async fn step<H: Handle>(self, store: H, table: TableName) -> Stepped<Self> {
        match self {
            Self::AsRead(reads) => {
                let (page, rest) = reads.step(store, table).await?;
                Ok((page, rest.map(Self::AsRead)))
            }
            Self::Sorted(reads, limit) => {
                let mut items = drain(Some(reads), &store, &table).await?;
                items.sort_by(|a, b| a.key().cmp(b.key()));
                items.truncate(limit.unwrap_or(usize::MAX));
                Ok((Page { items, continuation: None }, None))
            }
        }
    }
}

impl Step for Reads {
    async fn step<H: Handle>(self, store: H, table: TableName) -> Stepped<Self> {
        match self {
            Self::Queries(queries) => {
                let (page, rest) = queries.step(store, table).await?;
                Ok((page, rest.map(Self::Queries)))
            }
            Self::Points(points) => {
                let (page, rest) = points.step(store, table).await?;
                Ok((page, rest.map(Self::Points)))
            }
        }
    }
}

impl Queries {
    fn start(
        mut next: vec::IntoIter<Query>,
        page_size: Option<usize>,
        left: Left,
        hidden: Hidden,
    ) -> Option<Self> {
        let query = Query { top: left, ..next.next()? };
        Some(Self {
            current: QueryCursor::of(query, page_size)?.without(hidden),
            next,
            page_size,
            left,
            hidden,
        })
    }
}

impl Step for Queries {
    async fn step<H: Handle>(self, store: H, table: TableName) -> Stepped<Self> {
        let (page, rest) = self.current.step(store, table).await?;
        let left = less(self.left, page.items.len());
        let rest = match rest {
            Some(current) => Some(Self { current, left, ..self }),
            None => Self::start(self.next, self.page_size, left, self.hidden),
        };
        Ok((page, rest))
    }
}

impl Step for Points {
    /// Never reads more at once than entities are wanted.
    async fn step<H: Handle>(mut self, store: H, table: TableName) -> Stepped<Self> {
        let points: Vec<Point> = self.points.by_ref().take(self.left.unwrap_or(usize::MAX)).collect();
        let (store, table, select) = (&store, &table, self.select.as_ref());
        let reads = stream::iter(points).map(|point| point.read(store, table, select));
        let found: Vec<_> = reads.buffered(self.concurrency).try_collect().await?;
        let items: Vec<Entity> =
            found.into_iter().flatten().filter_map(|row| self.hidden.show(row)).collect();
        self.left = less(self.left, items.len());
        let done = self.points.as_slice().is_empty() || self.left == Some(0);
        Ok((Page { items, continuation: None }, (!done).then_some(self)))
    }
}

impl Point {
    async fn read<H: Handle>(
        self,
        store: &H,
        table: &TableName,
        select: Option<&Select>,
    ) -> Result<Option<Entity>> {
        match self {
            Self::Key(key) => store.get(table, &key, select).await,
            Self::Query(query) => {
                let rest = QueryCursor::of(query.with_top(1), None);
                Ok(drain(rest, store, table).await?.pop())
            }
        }
    }
}

/// Everything that is left.
async fn drain<S: Step, H: Handle>(mut rest: Option<S>, store: &H, table: &TableName) -> Result<Vec<Entity>> {
    let mut entities = Vec::new();
    while let Some(step) = rest {
        let page;
        (page, rest) = step.step(store.clone(), table.clone()).await?;
        entities.extend(page.items);
    }
    Ok(entities)
}

fn less(left: Left, read: usize) -> Left {
    left.map(|left| left.saturating_sub(read))
}
