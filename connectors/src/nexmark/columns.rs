//! The tables and their columns.

use thalweg_catalog::{Column, SqlError, SqlResult, SqlState, SqlType, suggest};

/// Which events a source gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum NexmarkTable {
    Person,
    Auction,
    Bid,
    /// All kinds in one relation.
    All,
}

impl NexmarkTable {
    pub(super) const WORDS: [(&'static str, NexmarkTable); 4] = [
        ("person", NexmarkTable::Person),
        ("auction", NexmarkTable::Auction),
        ("bid", NexmarkTable::Bid),
        ("all", NexmarkTable::All),
    ];
}

/// A kind of event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    Person,
    Auction,
    Bid,
}

/// What a column holds; the same words in all tables.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Field {
    Id,
    Name,
    Email,
    CreditCard,
    City,
    State,
    DateTime,
    Extra,
    ItemName,
    Description,
    InitialBid,
    Reserve,
    Expires,
    Seller,
    Category,
    Auction,
    Bidder,
    Price,
    Channel,
    Url,
}

/// The carrier that a column has by nature.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Nature {
    Integer,
    Text,
    Time,
}

const PERSON: [(&str, Field, Nature); 8] = [
    ("id", Field::Id, Nature::Integer),
    ("name", Field::Name, Nature::Text),
    ("emailAddress", Field::Email, Nature::Text),
    ("creditCard", Field::CreditCard, Nature::Text),
    ("city", Field::City, Nature::Text),
    ("state", Field::State, Nature::Text),
    ("dateTime", Field::DateTime, Nature::Time),
    ("extra", Field::Extra, Nature::Text),
];

const AUCTION: [(&str, Field, Nature); 10] = [
    ("id", Field::Id, Nature::Integer),
    ("itemName", Field::ItemName, Nature::Text),
    ("description", Field::Description, Nature::Text),
    ("initialBid", Field::InitialBid, Nature::Integer),
    ("reserve", Field::Reserve, Nature::Integer),
    ("dateTime", Field::DateTime, Nature::Time),
    ("expires", Field::Expires, Nature::Time),
    ("seller", Field::Seller, Nature::Integer),
    ("category", Field::Category, Nature::Integer),
    ("extra", Field::Extra, Nature::Text),
];

const BID: [(&str, Field, Nature); 7] = [
    ("auction", Field::Auction, Nature::Integer),
    ("bidder", Field::Bidder, Nature::Integer),
    ("price", Field::Price, Nature::Integer),
    ("channel", Field::Channel, Nature::Text),
    ("url", Field::Url, Nature::Text),
    ("dateTime", Field::DateTime, Nature::Time),
    ("extra", Field::Extra, Nature::Text),
];

const KINDS: [(&str, Kind); 3] = [("person", Kind::Person), ("auction", Kind::Auction), ("bid", Kind::Bid)];

impl Kind {
    fn fields(self) -> &'static [(&'static str, Field, Nature)] {
        match self {
            Kind::Person => &PERSON,
            Kind::Auction => &AUCTION,
            Kind::Bid => &BID,
        }
    }
}

/// Where the values of a declared column come from, and the type to give them.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ColumnPlan {
    pub(super) sql_type: SqlType,
    pub(super) origin: Origin,
}

#[derive(Clone, PartialEq, Debug)]
pub(super) enum Origin {
    /// 0 for a person, 1 for an auction, 2 for a bid.
    EventType,
    /// A value of the only kind of event that the table has.
    Value(Kind, Field),
    /// A record of the values of one kind of event.
    Record(Kind, Vec<ColumnPlan>),
}

/// The columns of a table if none are declared; names in lower case, as SQL folds them.
pub fn default_columns(table: NexmarkTable) -> Vec<Column> {
    let of = |kind: Kind| kind.fields().iter().map(|(name, _, nature)| (name.to_lowercase(), natural_type(*nature)));
    let columns = |kind: Kind| of(kind).map(|(name, sql_type)| Column::new(name, sql_type)).collect();
    match table {
        NexmarkTable::Person => columns(Kind::Person),
        NexmarkTable::Auction => columns(Kind::Auction),
        NexmarkTable::Bid => columns(Kind::Bid),
        NexmarkTable::All => std::iter::once(Column::new("event_type", SqlType::Int4))
            .chain(KINDS.iter().map(|(name, kind)| Column::new(*name, SqlType::Record(of(*kind).collect()))))
            .collect(),
    }
}

fn natural_type(nature: Nature) -> SqlType {
    match nature {
        Nature::Integer => SqlType::Int8,
        Nature::Text => SqlType::Text,
        Nature::Time => SqlType::Timestamp,
    }
}

/// Finds what each declared column is to hold.
pub(super) fn plan(table: NexmarkTable, columns: &[Column]) -> SqlResult<Vec<ColumnPlan>> {
    let only = match table {
        NexmarkTable::Person => Kind::Person,
        NexmarkTable::Auction => Kind::Auction,
        NexmarkTable::Bid => Kind::Bid,
        NexmarkTable::All => return columns.iter().map(plan_in_all).collect(),
    };
    columns.iter().map(|column| plan_value(only, &column.name, &column.sql_type)).collect()
}

fn same_name(declared: &str, name: &str) -> bool {
    let fold = |name: &str| name.chars().filter(|c| *c != '_').flat_map(char::to_lowercase).collect::<String>();
    fold(declared) == fold(name)
}

fn plan_value(kind: Kind, name: &str, sql_type: &SqlType) -> SqlResult<ColumnPlan> {
    let fields = kind.fields();
    let Some((_, field, nature)) = fields.iter().find(|(known, _, _)| same_name(name, known)) else {
        return Err(SqlError::new(SqlState::UndefinedColumn, format!("a nexmark event has no column \"{name}\""))
            .with_hint(suggest::hint(name, fields.iter().map(|(known, _, _)| *known))));
    };
    let fits = match nature {
        Nature::Integer => matches!(sql_type, SqlType::Int8 | SqlType::Numeric(_)),
        Nature::Text => matches!(sql_type, SqlType::Text | SqlType::Varchar(None)),
        Nature::Time => matches!(sql_type, SqlType::Timestamp | SqlType::TimestampTz),
    };
    if fits {
        return Ok(ColumnPlan { sql_type: sql_type.clone(), origin: Origin::Value(kind, *field) });
    }
    Err(SqlError::new(SqlState::DatatypeMismatch, format!("column \"{name}\" of a nexmark event cannot be of type {sql_type}"))
        .with_hint(format!("Declare it as {}.", natural_type(*nature))))
}

fn plan_in_all(column: &Column) -> SqlResult<ColumnPlan> {
    if same_name(&column.name, "event_type") {
        if !matches!(column.sql_type, SqlType::Int2 | SqlType::Int4 | SqlType::Int8) {
            return Err(SqlError::new(SqlState::DatatypeMismatch, "column \"event_type\" of a nexmark event must be an integer")
                .with_hint("Declare it as integer."));
        }
        return Ok(ColumnPlan { sql_type: column.sql_type.clone(), origin: Origin::EventType });
    }
    let Some((_, kind)) = KINDS.iter().find(|(name, _)| same_name(&column.name, name)) else {
        return Err(SqlError::new(SqlState::UndefinedColumn, format!("a nexmark event has no column \"{}\"", column.name))
            .with_hint("Set the option \"table\" to person, auction or bid to get the columns of one kind of event."));
    };
    let SqlType::Record(fields) = &column.sql_type else {
        return Err(SqlError::new(
            SqlState::DatatypeMismatch,
            format!("column \"{}\" of a nexmark event must be a record", column.name),
        )
        .with_hint("Declare no columns at all, to get those that there are."));
    };
    let plans = fields.iter().map(|(name, sql_type)| plan_value(*kind, name, sql_type)).collect::<SqlResult<_>>()?;
    Ok(ColumnPlan { sql_type: column.sql_type.clone(), origin: Origin::Record(*kind, plans) })
}
