import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.flink.configuration.ConfigOption;
import org.apache.flink.configuration.ConfigOptions;
import org.apache.flink.table.connector.source.DynamicTableSource;
import org.apache.flink.table.connector.source.LookupTableSource;
import org.apache.flink.table.connector.source.lookup.LookupFunctionProvider;
import org.apache.flink.table.data.GenericRowData;
import org.apache.flink.table.data.RowData;
import org.apache.flink.table.data.StringData;
import org.apache.flink.table.factories.DynamicTableSourceFactory;
import org.apache.flink.table.factories.FactoryUtil;
import org.apache.flink.table.functions.FunctionContext;
import org.apache.flink.table.functions.LookupFunction;

/** The connector {@code side-input}: rows (key, 'value ' and the key) from 0 up, in memory, to be looked up by key. */
public final class SideInput implements DynamicTableSourceFactory {
    private static final ConfigOption<Long> ROWS = ConfigOptions.key("rows").longType().noDefaultValue();

    @Override
    public String factoryIdentifier() {
        return "side-input";
    }

    @Override
    public Set<ConfigOption<?>> requiredOptions() {
        return Set.of(ROWS);
    }

    @Override
    public Set<ConfigOption<?>> optionalOptions() {
        return Set.of();
    }

    @Override
    public DynamicTableSource createDynamicTableSource(Context context) {
        var helper = FactoryUtil.createTableFactoryHelper(this, context);
        helper.validate();
        return new Table(helper.getOptions().get(ROWS));
    }

    private record Table(long rows) implements LookupTableSource {
        @Override
        public LookupRuntimeProvider getLookupRuntimeProvider(LookupContext context) {
            return LookupFunctionProvider.of(new Lookup(rows));
        }

        @Override
        public DynamicTableSource copy() {
            return new Table(rows);
        }

        @Override
        public String asSummaryString() {
            return "side input of " + rows + " rows";
        }
    }

    /** One task's copy of the rows. */
    public static final class Lookup extends LookupFunction {
        private final long count;
        private transient Map<Long, RowData> rows;

        Lookup(long count) {
            this.count = count;
        }

        @Override
        public void open(FunctionContext context) {
            rows = new HashMap<>();
            for (long key = 0; key < count; key++) {
                rows.put(key, GenericRowData.of(key, StringData.fromString("value " + key)));
            }
        }

        @Override
        public Collection<RowData> lookup(RowData key) {
            RowData found = rows.get(key.getLong(0));
            return found == null ? List.of() : List.of(found);
        }
    }
}
