// The proof that feedback contradicts earlier feedback, constraint by constraint.
import Thumbnail from "oahu_thumbnail";

export default {
  components: { Thumbnail },
  props: { data: String },
  emits: ["undo", "cancel"],
  computed: {
    content() {
      return JSON.parse(this.data);
    },
  },
  template: `
    <section v-if="content.pair" class="contradiction" role="alertdialog" aria-labelledby="contradiction-title" aria-describedby="contradiction-reason">
      <h2 id="contradiction-title">This contradicts earlier feedback</h2>
      <p class="claim"><span class="caption">Your feedback</span>
        <span class="link"><i class="small"><Thumbnail :item="content.pair.first"/></i><em>{{ content.pair.first.key }}</em>
          <b :class="content.pair.same ? 'similar' : 'dissimilar'">{{ content.pair.same ? '= is like' : '≠ is not like' }}</b>
          <i class="small"><Thumbnail :item="content.pair.second"/></i><em>{{ content.pair.second.key }}</em></span></p>
      <p id="contradiction-reason">But earlier feedback implies that they are {{ content.pair.same ? 'not alike' : 'alike' }}:</p>
      <ol>
        <li v-for="(link, index) in content.links" :key="index">
          <span class="link"><i class="small"><Thumbnail :item="link.first"/></i><em>{{ link.first.key }}</em>
            <b :class="link.same ? 'similar' : 'dissimilar'">{{ link.same ? '= is like' : '≠ is not like' }}</b>
            <i class="small"><Thumbnail :item="link.second"/></i><em>{{ link.second.key }}</em></span>
          <span v-if="link.seq === null" class="caption">from the same feedback</span>
          <button v-else type="button" class="undo" :aria-label="'Undo feedback ' + link.seq" @click="$emit('undo', link.seq)">
            Undo {{ link.seq }}</button>
        </li>
      </ol>
      <p class="hint">Undo one of these records to store your feedback.</p>
      <button type="button" class="quiet" @click="$emit('cancel')">Keep the earlier feedback</button>
    </section>`,
};
