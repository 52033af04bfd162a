//! Which accumulators a node's aggregates need, and where they lie in a group's value.

use super::accumulator::{Accumulator, Kind, Number};
use super::outcome::{Formula, Outcome};
use crate::error::OperatorError;
use arrow::datatypes::{DataType, Field, SchemaRef, TimeUnit};
use thalweg_plan::{AggregateCall, AggregateFunction};

/// Where the number of a group's rows lies.
pub(super) const LIVE: usize = 0;

/// The shape of a group's state. Accumulators that several aggregates need are there once.
pub(super) struct Layout {
    /// What the value consists of, for the table's specification.
    pub fields: Vec<Field>,
    pub width: usize,
    /// Where it is noted that a global group's row was given.
    pub given: Option<usize>,
    pub accumulators: Vec<Accumulator>,
    pub sets: Vec<SetShape>,
    pub outcomes: Vec<Outcome>,
    append: bool,
}

/// How many filters a set of seen values can tell apart: the bits of a count.
const FILTERS_MAX: usize = 63;

/// A table of values by group.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct SetShape {
    pub argument: usize,
    /// The filters of the aggregates that look at it. One alone, unless it keeps what was seen.
    pub filters: Vec<Option<usize>>,
    pub keeps: Keeps,
}

/// Which values a set keeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Keeps {
    /// All, with how many there are.
    All,
    /// All, with which of the filters have let each in: for inputs that never retract.
    Seen,
    /// The least alone: for inputs that never retract.
    Least,
    /// The greatest alone.
    Greatest,
}

impl Layout {
    /// The layout for these aggregates over `input`.
    pub fn new(calls: &[AggregateCall], input: &SchemaRef, append: bool, global: bool) -> Result<Layout, OperatorError> {
        let mut layout = Layout {
            fields: vec![Field::new("rows", DataType::Int64, false)],
            width: 8,
            given: None,
            accumulators: Vec::new(),
            sets: Vec::new(),
            outcomes: Vec::new(),
            append,
        };
        if global {
            layout.given = Some(layout.field("given", DataType::Int64, 8));
        }
        for call in calls {
            let outcome = layout.call(call, input)?;
            layout.outcomes.push(outcome);
        }
        Ok(layout)
    }

    fn call(&mut self, call: &AggregateCall, input: &SchemaRef) -> Result<Outcome, OperatorError> {
        let argument = Argument::of(call, input)?;
        let formula = match call.function {
            AggregateFunction::Count => Formula::Count { count: self.count(&argument) },
            AggregateFunction::Sum | AggregateFunction::Avg => self.sum(call.function, &argument)?,
            AggregateFunction::BoolAnd | AggregateFunction::BoolOr => {
                if argument.data_type != DataType::Boolean {
                    return Err(argument.refuse(call.function));
                }
                // Equal truths are one truth: DISTINCT changes nothing.
                let argument = Argument { distinct: false, ..argument };
                let (trues, count) = (self.accumulator(Kind::Trues, &argument), self.count(&argument));
                let all = call.function == AggregateFunction::BoolAnd;
                Formula::Truth { trues, count, all }
            }
            AggregateFunction::Min => self.extreme(Argument { distinct: false, ..argument }, false),
            AggregateFunction::Max => self.extreme(Argument { distinct: false, ..argument }, true),
        };
        Ok(Outcome { formula, output: call.output.clone() })
    }

    /// Where the number of values lies that an aggregate sees.
    fn count(&mut self, argument: &Argument) -> usize {
        if argument.filter.is_none() && !argument.distinct && !argument.nullable {
            return LIVE;
        }
        self.accumulator(Kind::Count, argument)
    }

    fn sum(&mut self, function: AggregateFunction, argument: &Argument) -> Result<Formula, OperatorError> {
        let (kind, scale) = match argument.data_type {
            DataType::Int64 => (Kind::SumInteger, 0),
            DataType::Decimal128(_, scale) => (Kind::SumDecimal, scale),
            DataType::Float64 => (Kind::SumFloat, 0),
            _ => return Err(argument.refuse(function)),
        };
        let (sum, count) = (self.accumulator(kind, argument), self.count(argument));
        let mean = function == AggregateFunction::Avg;
        Ok(match kind {
            Kind::SumFloat => Formula::FloatSum { sum, count, mean },
            _ => Formula::ExactSum { sum, count, scale, carries: kind == Kind::SumDecimal, mean },
        })
    }

    fn extreme(&mut self, argument: Argument, greatest: bool) -> Formula {
        if let (true, Some(number)) = (self.append, Number::of(&argument.data_type)) {
            return Formula::Extreme { value: self.accumulator(Kind::Extreme { greatest, number }, &argument), number };
        }
        let keeps = match (self.append, greatest) {
            (false, _) => Keeps::All,
            (true, false) => Keeps::Least,
            (true, true) => Keeps::Greatest,
        };
        Formula::Value { set: self.set(&argument, keeps), greatest }
    }

    fn set(&mut self, argument: &Argument, keeps: Keeps) -> usize {
        let column = argument.column.expect("only COUNT(*) has no argument, and it has no set");
        let filter = argument.filter;
        let has_room = |set: &SetShape| set.filters.contains(&filter) || set.filters.len() < FILTERS_MAX;
        let shared = |set: &SetShape| keeps == Keeps::Seen && set.keeps == keeps && set.argument == column && has_room(set);
        if let Some(place) = self.sets.iter().position(shared) {
            place_of(&mut self.sets[place].filters, filter);
            return place;
        }
        place_of(&mut self.sets, SetShape { argument: column, filters: vec![filter], keeps })
    }

    fn accumulator(&mut self, kind: Kind, argument: &Argument) -> usize {
        let set = argument.distinct.then(|| self.set(argument, if self.append { Keeps::Seen } else { Keeps::All }));
        let wanted = Accumulator { kind, argument: argument.column, filter: argument.filter, set, offset: 0 };
        if let Some(there) = self.accumulators.iter().find(|a| Accumulator { offset: 0, ..(*a).clone() } == wanted) {
            return there.offset;
        }
        let offset = self.width;
        let place = self.accumulators.len();
        for (name, data_type, width) in kind.fields(&argument.data_type) {
            self.field(&format!("{name}_{place}"), data_type, width);
        }
        self.accumulators.push(Accumulator { offset, ..wanted });
        offset
    }

    fn field(&mut self, name: &str, data_type: DataType, width: usize) -> usize {
        let offset = self.width;
        self.fields.push(Field::new(name, data_type, false));
        self.width += width;
        offset
    }
}

/// What an aggregate sees of a row.
#[derive(Clone)]
struct Argument {
    column: Option<usize>,
    data_type: DataType,
    nullable: bool,
    filter: Option<usize>,
    distinct: bool,
}

impl Argument {
    fn of(call: &AggregateCall, input: &SchemaRef) -> Result<Argument, OperatorError> {
        let field = |column: usize| match input.fields().get(column) {
            Some(field) => Ok(field),
            None => Err(OperatorError::Plan(format!("there is no column {column} in the input"))),
        };
        if let Some(filter) = call.filter
            && field(filter)?.data_type() != &DataType::Boolean
        {
            return Err(OperatorError::Plan("the filter of an aggregate must be boolean".into()));
        }
        let Some(column) = call.argument else {
            if call.function != AggregateFunction::Count || call.distinct {
                return Err(OperatorError::Plan(format!("{} needs an argument", call.function.name())));
            }
            let data_type = DataType::Null;
            return Ok(Argument { column: None, data_type, nullable: false, filter: call.filter, distinct: false });
        };
        let argument = field(column)?;
        Ok(Argument {
            column: Some(column),
            data_type: argument.data_type().clone(),
            nullable: argument.is_nullable(),
            filter: call.filter,
            distinct: call.distinct,
        })
    }

    fn refuse(&self, function: AggregateFunction) -> OperatorError {
        OperatorError::Plan(format!("{} of {} is not possible", function.name(), self.data_type))
    }
}

impl Kind {
    /// Name, type and width of each field that an accumulator of this kind keeps.
    fn fields(self, argument: &DataType) -> Vec<(&'static str, DataType, usize)> {
        let integer = |name| (name, DataType::Int64, 8);
        let float = |name| (name, DataType::Float64, 8);
        let wide = |name| (name, DataType::Decimal128(38, 0), 16);
        match self {
            Kind::Count => vec![integer("count")],
            Kind::SumInteger => vec![wide("sum")],
            Kind::SumDecimal => vec![wide("sum"), integer("sum_carry")],
            Kind::SumFloat => {
                vec![float("sum"), float("sum_rest"), integer("sum_nan"), integer("sum_inf"), integer("sum_minus_inf")]
            }
            Kind::Trues => vec![integer("trues")],
            Kind::Extreme { number, .. } => vec![number.field(argument), integer("extreme_seen")],
        }
    }
}

impl Number {
    /// How values of this type are kept at a fixed width; none if they aren't.
    fn of(data_type: &DataType) -> Option<Number> {
        match data_type {
            DataType::Boolean
            | DataType::Int16
            | DataType::Int32
            | DataType::Int64
            | DataType::Date32
            | DataType::Time64(TimeUnit::Microsecond)
            | DataType::Timestamp(TimeUnit::Microsecond, _) => Some(Number::Integer),
            DataType::Float32 | DataType::Float64 => Some(Number::Float),
            DataType::Decimal128(_, _) => Some(Number::Decimal),
            _ => None,
        }
    }

    fn field(self, argument: &DataType) -> (&'static str, DataType, usize) {
        match self {
            Number::Integer => match argument {
                DataType::Time64(_) | DataType::Timestamp(_, _) => ("extreme", argument.clone(), 8),
                _ => ("extreme", DataType::Int64, 8),
            },
            Number::Float => ("extreme", DataType::Float64, 8),
            Number::Decimal => ("extreme", argument.clone(), 16),
        }
    }
}

fn place_of<T: PartialEq>(all: &mut Vec<T>, wanted: T) -> usize {
    match all.iter().position(|a| *a == wanted) {
        Some(place) => place,
        None => {
            all.push(wanted);
            all.len() - 1
        }
    }
}
