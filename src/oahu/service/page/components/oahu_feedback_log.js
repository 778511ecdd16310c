// What was said, newest first, and undoing it.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["undo", "older", "newer", "search"],
  computed: {
    d() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <section class="log" aria-label="Feedback log">
      <header><h2>Feedback</h2><span class="over">{{ d.total.toLocaleString('en') }} {{ d.total === 1 ? 'entry' : 'entries' }}</span></header>
      <p v-if="!d.entries.length" class="empty">Nothing was said yet. Search for something and mark what is alike.</p>
      <ol>
        <li v-for="one in d.entries" :key="one.seq" :data-seq="one.seq" :class="{ undone: !one.counts }">
          <span class="seq">{{ one.seq }}</span>
          <span v-if="one.note" class="note">{{ one.note }}</span>
          <span v-else class="said">
            <template v-for="[sign, items] in [['', [one.first]], ['=', one.alike], ['≠', one.unlike]]">
              <b v-if="sign && items.length" :class="sign === '=' ? 'alike' : 'unlike'">{{ sign }}</b>
              <button v-for="item in items" :key="sign + item.key" type="button" class="small" :disabled="item.gone"
                      :title="item.gone ? item.key + ' (deleted)' : item.key"
                      :aria-label="'Search for what is like ' + item.key" @click="$emit('search', item.key)"><Thumbnail :item="item"/></button>
            </template>
          </span>
          <time :datetime="new Date(1000 * one.time).toISOString()" :title="new Date(1000 * one.time).toLocaleString()">{{ when(one.time) }}</time>
          <button v-if="!one.note && one.counts" type="button" class="undo" :disabled="!d.may" :title="d.may ? 'Undo' : d.why"
                  :aria-label="'Undo feedback ' + one.seq" @click="$emit('undo', one.seq)">Undo</button>
          <span v-else-if="!one.note" class="over">undone</span>
        </li>
      </ol>
      <nav v-if="d.newer || d.older" aria-label="Pages of the log">
        <button type="button" class="quiet" :disabled="!d.newer" @click="$emit('newer')">Newer</button>
        <button type="button" class="quiet" :disabled="!d.older" @click="$emit('older')">Older</button>
      </nav>
    </section>`,
  methods: {
    when(time) {
      const then = new Date(1000 * time);
      const today = then.toDateString() === new Date().toDateString();
      return today
        ? then.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" })
        : then.toLocaleDateString([], { day: "numeric", month: "short" });
    },
  },
};
